/** More unsent bytes than this stop whoever sends them. */
export const HIGH_WATER_BYTES = 131_072;

/** How long the plane waits for others. Real milliseconds: sockets know no simulated time. */
export interface Limits {
  /** For a node to accept a connection, before the next node is tried. */
  connectMs: number;
  /** For the first byte of a node's answer, counted from the end of the request. An answer that has begun may last for hours. */
  answerMs: number;
  /** For requests under way when their listener goes. */
  drainMs: number;
  /** The same when the whole plane closes: somebody pressed Ctrl-C. */
  closeMs: number;
  /** For a client to finish its request head (RFC 9110 section 15.5.9: 408). */
  headMs: number;
  /** For a client to finish its TLS handshake. */
  handshakeMs: number;
  /** For the next bytes of a request body (408). */
  bodyMs: number;
  /** For a client that is sent an answer to take what waits for it. */
  readMs: number;
  /** An idle client connection is kept this long. */
  keepAliveMs: number;
  /** For the second side of a tunnel to say something after the first has ended. */
  halfTunnelMs: number;
  /** A UDP session without a datagram either way ends (contract 8.2: 16 s). */
  udpSessionMs: number;
  /** A client that half-closed is asked after this time whether it still reads. */
  halfClosedMs: number;
}

export const defaultLimits: Limits = {
  connectMs: 5_000,
  answerMs: 300_000,
  drainMs: 5_000,
  closeMs: 1_000,
  headMs: 60_000,
  handshakeMs: 30_000,
  bodyMs: 60_000,
  readMs: 300_000,
  keepAliveMs: 75_000,
  halfTunnelMs: 60_000,
  udpSessionMs: 16_000,
  halfClosedMs: 1_000,
};
