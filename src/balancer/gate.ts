const SECOND_MS = 1_000;
/** Clients whose last connections are remembered; beyond it those that came longest ago are forgotten first. */
const MAX_CLIENTS = 20_000;

/** What all listeners of one balancer share: how many connections are open, and how fast each client makes new ones. */
export class Gate {
  /** Open client connections and UDP sessions. */
  open = 0;
  /** When each client's latest admitted connections came, oldest first; in order of the clients' last visit. */
  readonly #visits = new Map<string, number[]>();

  /** Whether a client may come in, at most `perSecond` times in any second; 0: as often as it likes. */
  admits(client: string, perSecond: number, nowMs: number): boolean {
    if (perSecond === 0) return true;
    const visits = (this.#visits.get(client) ?? []).filter((atMs) => nowMs - atMs < SECOND_MS);
    this.#visits.delete(client);
    const admitted = visits.length < perSecond;
    if (admitted) visits.push(nowMs);
    this.#visits.set(client, visits);
    for (const [oldest, times] of this.#visits) {
      if (this.#visits.size <= MAX_CLIENTS && nowMs - (times.at(-1) ?? 0) < SECOND_MS) break;
      this.#visits.delete(oldest);
    }
    return admitted;
  }
}

/** One gate per balancer, made when first asked for. Ids are never reused, and a gate without visits is a few bytes. */
export class Gates {
  readonly #gates = new Map<number, Gate>();

  of(balancer: number): Gate {
    let gate = this.#gates.get(balancer);
    if (!gate) {
      gate = new Gate();
      this.#gates.set(balancer, gate);
    }
    return gate;
  }
}
