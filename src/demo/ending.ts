import type { Door } from "./visitor.js";

/** Quoted for a POSIX shell when it needs to be. */
export const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** curl over verified TLS: the balancer's name, resolved to where it listens, trusting the demo's certificate alone. */
export const tlsCommand = (door: Door, certFile: string): string =>
  `curl --cacert ${shellWord(certFile)} --resolve ${door.hostname}:${door.port}:${door.address} https://${door.hostname}:${door.port}/`;

/** What to go on playing with. */
export const playground = (found: { url: string; token: string; balancerId: number; door: Door; certFile: string }): string[] => [
  "It stays up until Ctrl-C; then everything it made is removed. Go on playing:",
  `  API    ${found.url}/v4`,
  `  token  ${found.token}`,
  `  web    https://${found.door.address}:${found.door.port}/`,
  "",
  `  ${tlsCommand(found.door, found.certFile)}`,
  `  curl -H 'Authorization: Bearer ${found.token}' ${found.url}/v4/balancers/${found.balancerId}/configs`,
  `  curl -H 'Authorization: Bearer ${found.token}' ${found.url}/v4/account/events`,
];
