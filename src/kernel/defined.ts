type Defined<T extends object> = Partial<{ [N in keyof T]: Exclude<T[N], undefined> }>;

/** The members that were given: what is `undefined` must not wipe what is laid under it. */
export const definedOf = <T extends object>(value: T | undefined): Defined<T> =>
  Object.fromEntries(Object.entries(value ?? {}).filter(([, member]) => member !== undefined)) as Defined<T>;
