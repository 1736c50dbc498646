/** `sslCert` -> `ssl_cert`, part by part, so that paths such as `configs[0].nodes[1].address` work too. snake_case exists only at the wire. */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
