// Numbers and the one table. A row: { what, values (ms) | figure, budget, baseline?, note? }.

const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)];
export const median = (values) => quantile(values, 0.5);

/** Milliseconds that `act` takes. */
export const timed = async (act) => {
  const startMs = performance.now();
  await act();
  return performance.now() - startMs;
};

const round = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

/**
 * One line of the table.
 * @param row.unit of figure, worst and baseline ("ms", "MB")
 * @param row.budget in that unit, or `budgetRatio`: how many times the baseline it may be
 */
export const line = ({ what, figure, worst, unit, baseline, baselineIs, budget, budgetRatio }) => {
  const ratio = baseline === undefined ? undefined : figure / baseline;
  const limit = budget ?? (budgetRatio === undefined ? undefined : budgetRatio * baseline);
  const budgetText = budget === undefined ? (budgetRatio === undefined ? "" : `<= ${budgetRatio} times`) : `< ${budget} ${unit}`;
  return [
    what,
    `${round(figure)} ${unit}`,
    worst === undefined ? "" : `${round(worst)} ${unit}`,
    baseline === undefined ? "" : `${round(baseline)} ${unit} ${baselineIs}`,
    ratio === undefined ? "" : round(ratio),
    budgetText,
    limit === undefined ? "" : `${Math.round((figure / limit) * 100)} %`,
    limit === undefined ? "" : figure <= limit ? "yes" : "NO",
  ];
};

const head = ["what", "median", "worst", "baseline (median)", "times", "budget", "of budget", "holds"];

export const printTable = (lines) => {
  const widths = head.map((title, at) => Math.max(title.length, ...lines.map((cells) => cells[at].length)));
  const show = (cells) => console.log(`| ${cells.map((cell, at) => cell.padEnd(widths[at])).join(" | ")} |`);
  show(head);
  show(widths.map((width) => "-".repeat(width)));
  for (const cells of lines) show(cells);
};
