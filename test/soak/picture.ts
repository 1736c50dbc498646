const series = [
  ["rss", "RSS", "#2f6fde"],
  ["descriptors", "descriptors", "#3a9d5d"],
  ["sockets", "sockets", "#c58a1c"],
  ["timers", "timers", "#c0483b"],
] as const;

type Point = { at: number } & Partial<Record<(typeof series)[number][0], number>>;

interface Words {
  title: string;
  caption: string;
  /** Of `at`, such as "simulated minutes". */
  unit: string;
}

const [left, top, width, height] = [52, 52, 640, 240];
/** What the vertical axis shows, as parts of the first sample. */
const [least, most] = [0.5, 1.5];

/** Curves of what a process holds, each beside its own beginning, as an SVG. What the first point does not have is not drawn. */
export const curves = (points: readonly Point[], { title, caption, unit }: Words): string => {
  const [first] = points;
  const drawn = series.filter(([name]) => first?.[name] !== undefined);
  const longest = Math.max(1, ...points.map(({ at }) => at));
  const x = (at: number): string => (left + (at / longest) * width).toFixed(1);
  const y = (part: number): string => (top + ((most - Math.min(most, Math.max(least, part))) / (most - least)) * height).toFixed(1);
  const text = (at: number, below: number, words: string, more = ""): string => `<text x="${at}" y="${below}" ${more}>${words}</text>`;
  const rules = [0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5].map((part) => {
    const dash = part === 1 ? "" : ' stroke-dasharray="3 3"';
    return `<line x1="${left}" y1="${y(part)}" x2="${left + width}" y2="${y(part)}" stroke="#bbb"${dash}/>${text(left - 6, Number(y(part)) + 4, String(part), 'text-anchor="end" font-size="9"')}`;
  });
  const lines = drawn.map(([name, , colour]) => {
    const begin = first?.[name] || 1;
    return `<polyline fill="none" stroke="${colour}" stroke-width="1.5" points="${points.map((point) => `${x(point.at)},${y((point[name] ?? 0) / begin)}`).join(" ")}"/>`;
  });
  const legend = drawn.map(
    ([, label, colour], index) =>
      `<rect x="${left + index * 110}" y="30" width="10" height="10" fill="${colour}"/>${text(left + 14 + index * 110, 39, label)}`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + width + 20} ${top + height + 50}" font-family="sans-serif" font-size="11">
<title>${title}</title>
<rect width="100%" height="100%" fill="#fff"/>
${text(10, 18, title, 'font-weight="bold"')}
${[...legend, ...rules, ...lines].join("\n")}
${text(left, top + height + 18, "0", 'font-size="9"')}
${text(left + width, top + height + 18, `${Math.round(longest)} ${unit}`, 'text-anchor="end" font-size="9"')}
${text(10, top + height + 40, caption, 'font-size="10" fill="#555"')}
</svg>
`;
};
