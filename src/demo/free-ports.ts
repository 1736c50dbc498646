import { createServer } from "node:net";

/** What a trial bind says: `free`, or the errno name of the refusal. */
export const bindTrial = (address: string, port: number): Promise<string> =>
  new Promise((resolve) => {
    const server = createServer();
    server.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host: address, port, exclusive: true }, () => server.close(() => resolve("free")));
  });

/** Where a listener goes whose port needs privileges we lack: 80 -> 8080, 443 -> 8443. */
const offsetPorts = new Map([
  [80, 8080],
  [443, 8443],
]);

const isTaken = async (address: string, port: number): Promise<boolean> => {
  const outcome = await bindTrial(address, port);
  const offset = offsetPorts.get(port);
  if (outcome === "EACCES" && offset !== undefined) return (await bindTrial(address, offset)) !== "free";
  return outcome !== "free";
};

/** The ranges the demo's balancer may get its address from, in the order they are tried: the usual one first. */
export const candidateRanges = (usual: string): string[] => [usual, ...Array.from({ length: 9 }, (_, index) => `127.0.${index + 1}.0/24`)];

/** The address a balancer gets first from such a range. */
export const firstAddress = (cidr: string): string => {
  const [base = "", prefix] = cidr.split("/");
  return prefix === "32" ? base : base.replace(/\d{1,3}$/, (last) => String(Number(last) + 1));
};

/** The first range whose first address has 80 and 443 free; undefined when none has. `taken` lists what stood in the way. */
export const freeRange = async (candidates: readonly string[]): Promise<{ range: string | undefined; taken: string[] }> => {
  const taken: string[] = [];
  for (const range of candidates) {
    const address = firstAddress(range);
    const here: string[] = [];
    for (const port of [80, 443]) if (await isTaken(address, port)) here.push(`${address}:${port}`);
    if (here.length === 0) return { range, taken };
    taken.push(...here);
  }
  return { range: undefined, taken };
};
