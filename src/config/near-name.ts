const bare = (name: string): string => name.replace(/[-_\s]/g, "").toLowerCase();

/** Edits (insert, delete, replace, swap neighbours) from one word to the other. */
const distance = (a: string, b: string): number => {
  const rows: number[][] = Array.from({ length: a.length + 1 }, (_, i) => [i]);
  const at = (i: number, j: number): number => rows[i]?.[j] ?? i + j;
  for (let j = 1; j <= b.length; j += 1) rows[0]?.push(j);
  for (let i = 1; i <= a.length; i += 1) {
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(i - 2, j - 2) + 1 : replaced;
      rows[i]?.push(Math.min(replaced, swapped, at(i - 1, j) + 1, at(i, j - 1) + 1));
    }
  }
  return at(a.length, b.length);
};

/** The known name that was probably meant; undefined when none is near (up to a third of its letters, at least one). */
export const nearName = (name: string, known: readonly string[]): string | undefined => {
  if (name.length > 64) return undefined;
  const [best] = known
    .map((each) => ({ each, edits: distance(bare(name), bare(each)) }))
    .filter(({ each, edits }) => edits <= Math.max(1, Math.floor(bare(each).length / 3)))
    .sort((a, b) => a.edits - b.edits);
  return best?.each;
};
