/** An IPv4 address range. `base` is the network's first address as an unsigned 32-bit number. */
export interface Range {
  base: number;
  /** 0..32 */
  prefix: number;
  /** Number of addresses in it. */
  size: number;
}

const [ZERO, NINE, DOT] = [48, 57, 46];

/** `undefined` when the text is not four decimal octets without leading zeros. Byte by byte: every check of a node asks for several. */
export const parseIpv4 = (text: string): number | undefined => {
  let value = 0;
  let octet = -1;
  let octets = 1;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === DOT) {
      if (octet < 0) return undefined;
      value = value * 256 + octet;
      octets += 1;
      octet = -1;
    } else {
      if (code < ZERO || code > NINE || octet === 0) return undefined;
      octet = (octet < 0 ? 0 : octet * 10) + code - ZERO;
      if (octet > 255) return undefined;
    }
  }
  return octets === 4 && octet >= 0 ? value * 256 + octet : undefined;
};

export const formatIpv4 = (value: number): string => [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");

/** `undefined` when the text is not `A.B.C.D/N` with all host bits zero. */
export const parseCidr = (text: string): Range | undefined => {
  const [address = "", prefixText = "", ...rest] = text.split("/");
  const base = parseIpv4(address);
  if (base === undefined || rest.length > 0 || !/^(\d|[12]\d|3[0-2])$/.test(prefixText)) return undefined;
  const prefix = Number(prefixText);
  const size = 2 ** (32 - prefix);
  return base % size === 0 ? { base, prefix, size } : undefined;
};

export const formatCidr = (range: Range): string => `${formatIpv4(range.base)}/${range.prefix}`;

export const contains = (range: Range, address: string): boolean => {
  const value = parseIpv4(address);
  return value !== undefined && value >= range.base && value < range.base + range.size;
};

export const overlaps = (a: Range, b: Range): boolean => a.base < b.base + b.size && b.base < a.base + a.size;

/** The `index`-th piece of `range` when it is cut into pieces of `/prefix`. */
export const slice = (range: Range, prefix: number, index: number): Range => {
  const size = 2 ** (32 - prefix);
  return { base: range.base + index * size, prefix, size };
};

/** The first address of a network after its own: where its machines find their way out, as we lay networks out. */
export const gatewayOf = (range: Range): string => formatIpv4(range.base + 1);

export const netmask = (range: Range): string => formatIpv4(2 ** 32 - range.size);

/** A literal address of this machine's loopback (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5.3). */
export const isLoopback = (address: string): boolean => address === "::1" || (address.startsWith("127.") && parseIpv4(address) !== undefined);

/** `::ffff:127.0.0.1` is how a socket that listens on `::` spells an IPv4 client. */
export const plainAddress = (address: string | undefined): string => {
  if (address === undefined) return "";
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
};
