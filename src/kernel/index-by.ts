const cache = new WeakMap<readonly unknown[], Map<(row: never) => unknown, Map<unknown, unknown[]>>>();

/**
 * Groups rows by a key, once per list: the store hands out the same array until its kind changes, so the array itself is the cache's key
 * and nothing has to be invalidated. `key` must be a constant function.
 */
export const indexBy = <R, V>(rows: readonly R[], key: (row: R) => V): ReadonlyMap<V, readonly R[]> => {
  let byKey = cache.get(rows);
  if (!byKey) {
    byKey = new Map();
    cache.set(rows, byKey);
  }
  let index = byKey.get(key) as Map<V, R[]> | undefined;
  if (!index) {
    index = new Map();
    for (const row of rows) {
      const at = key(row);
      const group = index.get(at);
      if (group) group.push(row);
      else index.set(at, [row]);
    }
    byKey.set(key, index as Map<unknown, unknown[]>);
  }
  return index;
};
