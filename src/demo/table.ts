/** What became of one step. */
export interface Outcome {
  title: string;
  /** What was seen, in a few words. */
  seen: string;
  tookMs: number;
}

/** `7 ms`, `1.2 s` */
export const duration = (ms: number): string => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

export const tickLine = (outcome: Outcome): string =>
  `  ✓ ${outcome.title}${outcome.seen === "" ? "" : `: ${outcome.seen}`} (${duration(outcome.tookMs)})`;

/** The lines of the closing table: one a step, times aligned right, and the sum. */
export const provenTable = (outcomes: readonly Outcome[]): string[] => {
  const rows: Array<[string, string]> = outcomes.map((outcome) => [outcome.title, duration(outcome.tookMs)]);
  const sum: [string, string] = ["the whole story", duration(outcomes.reduce((total, outcome) => total + outcome.tookMs, 0))];
  const widths = [0, 1].map((column) => Math.max(...[...rows, sum, ["proven", "took"]].map((row) => row[column]?.length ?? 0)));
  const [left = 0, right = 0] = widths;
  const line = ([title, took]: [string, string]): string => `  ${title.padEnd(left)}  ${took.padStart(right)}`;
  const rule = `  ${"─".repeat(left)}  ${"─".repeat(right)}`;
  return [line(["proven", "took"]), rule, ...rows.map(line), rule, line(sum)];
};
