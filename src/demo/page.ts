/** The line the shipped "Hello web" script puts into its page. */
export interface BackEnd {
  label: string;
  id: number;
  address: string;
}

/** Which instance served this page; undefined when the page does not say. */
export const backEnd = (body: string): BackEnd | undefined => {
  const match = /instance=(\S{1,64}) id=(\d{1,15}) address=([\d.]{7,15})/.exec(body);
  return match ? { label: match[1] ?? "", id: Number(match[2]), address: match[3] ?? "" } : undefined;
};

/** True when two labels take turns strictly and nobody else answers. */
export const takeTurns = (labels: readonly string[], first: string, second: string): boolean =>
  labels.length > 1 &&
  labels.every((label) => label === first || label === second) &&
  labels.every((label, index) => index === 0 || label !== labels[index - 1]);
