/** `::ffff:127.0.0.1` is how a socket that listens on `::` spells an IPv4 client. */
export const plainAddress = (address: string | undefined): string => {
  if (address === undefined) return "";
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
};
