import { contains, parseCidr } from "../../kernel/addresses.js";
import { cannotStart } from "../../kernel/fault.js";

/** The two halves of an address that the API shows and of the loopback address that stands for it; ports stay as they are. */
const twins = [
  { shown: "192.168.", real: "127.192." },
  { shown: "198.18.", real: "127.18." },
] as const;

/** `127.192.1.2` for `192.168.1.2`, `127.18.1.2` for `198.18.1.2`, `undefined` for anything else. */
export const loopbackOf = (shown: string): string | undefined => {
  const twin = twins.find((each) => shown.startsWith(each.shown));
  return twin && twin.real + shown.slice(twin.shown.length);
};

/** The other way round: what the API shows for a loopback address of a machine. */
export const shownOf = (real: string): string | undefined => {
  const twin = twins.find((each) => real.startsWith(each.real));
  return twin && twin.shown + real.slice(twin.real.length);
};

/** Maps the addresses of these pools, and no others, to loopback. */
export const poolMap = (pools: readonly string[]): ((address: string) => string | undefined) => {
  const ranges = pools.map((pool) => {
    const range = parseCidr(pool);
    if (!range || loopbackOf(pool) === undefined || range.prefix < 16) {
      throw cannotStart(
        `The process runtime cannot map ${pool} to loopback: choose a pool inside 192.168.0.0/16 (private) or 198.18.0.0/16 (public).`,
      );
    }
    return range;
  });
  return (address) => (ranges.some((range) => contains(range, address)) ? loopbackOf(address) : undefined);
};
