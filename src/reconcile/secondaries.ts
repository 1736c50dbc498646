import type { Disposable } from "../kernel/closers.js";
import { reasonOf } from "../kernel/fault.js";
import { serverPlace } from "../kernel/names.js";
import { type Cloud, type FetchedZone, observe } from "../resources/cloud.js";
import type { DomainRow } from "../resources/domains/domain.js";
import { isSame } from "./known-rows.js";
import { openLoop } from "./loop.js";

export interface Secondaries extends Disposable {
  /** What a slave's masters gave last; undefined while none did, and when that is older than they allow. */
  zone(domain: number): FetchedZone | undefined;
}

interface SecondariesOptions {
  cloud: Cloud;
  /** A slave's content came, or went. */
  onChange(domain: number): void;
  onFailure(domain: number, error: unknown): void;
}

/** Whatever the zone says and however fast time goes, its masters are asked no more often, in real ms. */
const shortestPauseMs = 1_000;
/** A master that does not answer is asked again at least this often, in real ms: people mend it and look. */
const longestRetryMs = 15_000;

/** Fetches slaves from their masters and keeps them fresh (RFC 1034 section 4.3.5). Content is memory only: a start fetches it anew. */
export const openSecondaries = ({ cloud, onChange, onFailure }: SecondariesOptions): Secondaries => {
  const { store, clock } = cloud;
  const held = new Map<number, { zone: FetchedZone; atMs: number; masters: string }>();

  const drop = (id: number): void => {
    if (held.delete(id)) onChange(id);
  };

  const fetched = async (row: DomainRow): Promise<FetchedZone> => {
    const reasons: string[] = [];
    for (const master of row.masterIps) {
      const place = serverPlace(master);
      if (!place) continue;
      try {
        return await cloud.fetchZone(row.domain, place);
      } catch (error) {
        reasons.push(reasonOf(error));
      }
    }
    throw new Error(reasons.join(" "));
  };

  const reconcile = async (id: number): Promise<number | undefined> => {
    const row = store.get("domain", id);
    if (row?.type !== "slave" || row.status !== "active") {
      drop(id);
      observe(store, "domain", id, undefined);
      return undefined;
    }
    const masters = JSON.stringify([row.domain, row.masterIps]);
    if (held.get(id)?.masters !== masters) drop(id);
    try {
      const zone = await fetched(row);
      if (store.get("domain", id) !== row) return 0;
      held.set(id, { zone, atMs: clock.now(), masters });
      onChange(id);
      observe(store, "domain", id, { error: null });
      return Math.max(shortestPauseMs, clock.simulated((row.refreshSec || zone.soa.refresh || 14_400) * 1000));
    } catch (error) {
      if (store.get("domain", id) !== row) return 0;
      const last = held.get(id);
      if (last && clock.now() - last.atMs > clock.simulated(last.zone.soa.expire * 1000)) drop(id);
      observe(store, "domain", id, { error: reasonOf(error) });
      const retryMs = clock.simulated((row.retrySec || last?.zone.soa.retry || 14_400) * 1000);
      return Math.min(longestRetryMs, Math.max(shortestPauseMs, retryMs));
    }
  };

  const loop = openLoop({ reconcile, clock, onFailure, concurrency: 8 });
  const known = new Map<number, DomainRow>();
  const watching = store.watch((kind, id) => {
    if (kind === "domain" && !isSame(known, id, store.get("domain", id))) loop.poke(id);
  });
  for (const row of store.list("domain")) {
    known.set(row.id, row);
    if (row.type === "slave") loop.poke(row.id);
  }

  return {
    zone: (domain) => held.get(domain)?.zone,
    close: async () => {
      await watching.close();
      await loop.close();
    },
  };
};
