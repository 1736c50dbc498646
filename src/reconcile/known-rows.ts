/**
 * Whether `row` is the very row that was seen last, and remembers it. Observations come back as news of their own; only a changed row is a
 * reason to act, and rows are never changed in place.
 */
export const isSame = <R>(known: Map<number, R>, id: number, row: R | undefined): boolean => {
  const same = row !== undefined && known.get(id) === row;
  if (row) known.set(id, row);
  else known.delete(id);
  return same;
};
