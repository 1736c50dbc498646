const title = "Throughput, HAProxy with one thread = 1";

/** Bars of throughput relative to HAProxy, one group a row, as an SVG. */
export const picture = (rows, peers, caption) => {
  const colours = { backlot: "#2f6fde", haproxy: "#888", nginx: "#3a9d5d", careful: "#c58a1c", "http-proxy": "#c0483b" };
  const shown = peers.filter((peer) => colours[peer]);
  const [left, bar, gap, width] = [210, 9, 12, 520];
  const group = shown.length * bar + gap;
  const top = 54;
  const most = Math.max(1.2, ...rows.flatMap(({ ratios }) => shown.map((peer) => ratios[peer] ?? 0)));
  const x = (ratio) => left + (ratio / most) * width;
  const parts = [];
  const text = (at, y, words, more = "") => parts.push(`<text x="${at}" y="${y}" ${more}>${words}</text>`);
  text(10, 18, title, 'font-weight="bold"');
  shown.forEach((peer, index) => {
    parts.push(`<rect x="${10 + index * 110}" y="28" width="10" height="10" fill="${colours[peer]}"/>`);
    text(24 + index * 110, 37, peer);
  });
  rows.forEach(({ name, ratios }, index) => {
    const y = top + index * group;
    text(left - 8, y + (shown.length * bar) / 2 + 4, name, 'text-anchor="end"');
    shown.forEach((peer, place) => {
      const ratio = ratios[peer];
      if (ratio === undefined) return;
      parts.push(`<rect x="${left}" y="${y + place * bar}" width="${(x(ratio) - left).toFixed(1)}" height="${bar - 1}" fill="${colours[peer]}"/>`);
      text(x(ratio) + 4, y + place * bar + bar - 1, ratio.toFixed(2), 'font-size="9"');
    });
  });
  const height = top + rows.length * group + 30;
  parts.push(`<line x1="${x(1)}" y1="${top - 6}" x2="${x(1)}" y2="${height - 30}" stroke="#444" stroke-dasharray="3 3"/>`);
  text(10, height - 10, caption, 'font-size="10" fill="#555"');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + width + 60} ${height}" font-family="sans-serif" font-size="11">
<title>${title}</title>
<rect width="100%" height="100%" fill="#fff"/>
${parts.join("\n")}
</svg>
`;
};
