import type { Api, Json } from "../support/cloud.js";

/** What a caller knows of one thing it made: found by its label, which is used once. */
export type Kind = "balancer" | "config" | "instance" | "volume";

/** The members that were asked for and answered; `null`: it is not there. */
type Known = Readonly<Record<string, Json>> | null;

interface Entry {
  kind: Kind;
  label: string;
  /** As acknowledged. */
  is: Known;
  id: number | undefined;
  /** As it is instead when the request that was under way at the crash took effect. */
  maybe: Known | undefined;
}

/** Everything that callers were told, and what was under way when they were cut off. */
export interface Ledger {
  /** Before a request: what it would make of the thing. */
  asked(kind: Kind, label: string, would: Known): void;
  /** It was answered with 200; a creation also says the id. */
  acknowledged(kind: Kind, label: string, id?: number): void;
  /** It was answered with a refusal. */
  refused(kind: Kind, label: string): void;
  /** What is there for sure, of those whose label begins so. */
  known(kind: Kind, beginning: string): Array<{ label: string; id: number; is: Readonly<Record<string, Json>> }>;
  /** Differences between what was told and what is. */
  differences(found: ReadonlyMap<Kind, readonly Json[]>): string[];
  /** There are none: what may have been either way is from now on what was found. */
  settle(found: ReadonlyMap<Kind, readonly Json[]>): void;
  /** Was anything asked of it since the last `settle`? */
  isTouched(kind: Kind, label: string): boolean;
  /** How many requests were acknowledged. */
  count(): number;
}

const matches = (known: Known, found: Json | undefined): boolean =>
  known === null ? found === undefined : found !== undefined && Object.entries(known).every(([name, value]) => found[name] === value);

/** Which of the two that an entry may be it is. */
const actual = ({ is, maybe }: Entry, row: Json | undefined): Known | undefined =>
  [is, maybe].find((known) => known !== undefined && matches(known, row));

const rowOf = (found: ReadonlyMap<Kind, readonly Json[]>, { kind, label }: Entry): Json | undefined =>
  found.get(kind)?.find((row) => row.label === label);

export const openLedger = (): Ledger => {
  const entries = new Map<string, Entry>();
  const touched = new Set<string>();
  let count = 0;
  const entryOf = (kind: Kind, label: string): Entry => {
    const key = `${kind} ${label}`;
    const entry = entries.get(key) ?? { kind, label, id: undefined, is: null, maybe: undefined };
    entries.set(key, entry);
    return entry;
  };
  return {
    asked: (kind, label, would) => {
      entryOf(kind, label).maybe = would;
      touched.add(`${kind} ${label}`);
    },
    acknowledged: (kind, label, id) => {
      const entry = entryOf(kind, label);
      entry.id ??= id;
      entry.is = entry.maybe ?? null;
      entry.maybe = undefined;
      count += 1;
    },
    refused: (kind, label) => {
      entryOf(kind, label).maybe = undefined;
    },
    known: (kind, beginning) =>
      [...entries.values()].flatMap(({ kind: of, label, id, is, maybe }) =>
        of === kind && label.startsWith(beginning) && is !== null && maybe === undefined && id !== undefined ? [{ label, id, is }] : [],
      ),
    differences: (found) => {
      const strangers = [...found].flatMap(([kind, rows]) =>
        rows.flatMap(({ label }) => (entries.has(`${kind} ${label}`) ? [] : [`${kind} ${label} is there and nobody made it`])),
      );
      const wrong = [...entries].flatMap(([key, entry]) => {
        const row = rowOf(found, entry);
        if (actual(entry, row) !== undefined) return [];
        const either = entry.maybe === undefined ? "" : `, or ${JSON.stringify(entry.maybe)}`;
        const seen = row && Object.fromEntries(Object.keys({ ...entry.is, ...entry.maybe }).map((name) => [name, row[name]]));
        return [`${key}: acknowledged ${JSON.stringify(entry.is)}${either}, found ${JSON.stringify(seen ?? null)}`];
      });
      return [...strangers, ...wrong];
    },
    settle: (found) => {
      for (const [key, entry] of entries) {
        const row = rowOf(found, entry);
        const is = actual(entry, row);
        if (is) Object.assign(entry, { is, maybe: undefined, id: row?.id });
        else entries.delete(key);
      }
      touched.clear();
    },
    isTouched: (kind, label) => touched.has(`${kind} ${label}`),
    count: () => count,
  };
};

const list = async (api: Api, path: string): Promise<Json[]> => {
  const { status, body } = await api.get(`${path}?page_size=500`);
  if (status !== 200) throw new Error(`GET ${path}: ${status} ${JSON.stringify(body)}`);
  if (body.pages > 1) throw new Error(`${path} has more than one page`);
  return body.data;
};

/** Everything the API shows of the kinds a ledger knows. */
export const everything = async (api: Api): Promise<Map<Kind, Json[]>> => {
  const [balancers, instances, volumes] = await Promise.all(["/v4/balancers", "/v4/cloud/instances", "/v4/volumes"].map((path) => list(api, path)));
  const configs = (await Promise.all((balancers ?? []).map(({ id }) => list(api, `/v4/balancers/${id}/configs`)))).flat();
  return new Map<Kind, Json[]>([
    ["balancer", balancers ?? []],
    ["config", configs],
    ["instance", instances ?? []],
    ["volume", volumes ?? []],
  ]);
};
