/** What the work comes to, or after `ms` what `late` says instead, which may throw. What fails later was told as late. */
export const within = async <T>(ms: number, work: Promise<T>, late: () => T | Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const passed = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  const first = await Promise.race([work.then((value) => ({ value })), passed]).finally(() => clearTimeout(timer));
  if (first) return first.value;
  work.catch(() => {});
  return late();
};
