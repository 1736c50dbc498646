import type { Problem } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import { balancerView } from "../balancers/balancer.js";
import type { Cloud, CloudStore, Kinds, Reader, Tx } from "../cloud.js";
import { domainView } from "../domains/domain.js";
import { instanceView } from "../instances/instance.js";
import { volumeView } from "../volumes/volume.js";

/** A tag that somebody made by itself; one that things carry needs no row. */
export interface TagRow extends Row {
  label: string;
}

/** Kinds whose rows carry tags. */
type TaggedKind = { [N in keyof Kinds]: Kinds[N] extends { tags: string[] } ? N : never }[keyof Kinds];

interface Tagged<N extends TaggedKind> {
  kind: N;
  /** Member of a `POST /v4/tags` that lists ids of it. */
  member: string;
  /** What `GET /v4/tags/LABEL` shows of one. */
  view(cloud: Cloud, row: Kinds[N]): object;
}

const tagged = <N extends TaggedKind>(entry: Tagged<N>): Tagged<N> => entry;

/** Everything that carries tags: one line a kind. */
const taggedKinds = [
  tagged({ kind: "instance", member: "instances", view: (cloud, row) => instanceView(cloud, row) }),
  tagged({ kind: "balancer", member: "balancers", view: balancerView }),
  tagged({ kind: "domain", member: "domains", view: (cloud, row) => domainView(cloud, row) }),
  tagged({ kind: "volume", member: "volumes", view: (cloud, row) => volumeView(cloud, row) }),
] as unknown as readonly Tagged<TaggedKind>[];

export const memberNames: readonly string[] = taggedKinds.map((entry) => entry.member);

const carriers = (reader: Reader, label: string): Array<{ of: Tagged<TaggedKind>; row: Kinds[TaggedKind] }> =>
  taggedKinds.flatMap((of) =>
    reader
      .list(of.kind)
      .filter((row) => row.tags.includes(label))
      .map((row) => ({ of, row })),
  );

/** Every tag there is, by name. */
export const tagLabels = (reader: Reader): string[] => {
  const labels = new Set(reader.list("tag").map((row) => row.label));
  for (const { kind } of taggedKinds) for (const row of reader.list(kind)) for (const label of row.tags) labels.add(label);
  return [...labels].sort();
};

export const hasTag = (reader: Reader, label: string): boolean =>
  reader.list("tag").some((row) => row.label === label) || carriers(reader, label).length > 0;

/** What carries a tag, as `{type, data}` (contract 14.8). */
export const taggedThings = (cloud: Cloud, label: string): Array<{ type: string; view(): object }> =>
  carriers(cloud.store, label).map(({ of, row }) => ({ type: of.kind, view: () => of.view(cloud, row) }));

/** Ids by member, as a `POST /v4/tags` names them. */
export type Wanted = Partial<Record<string, readonly number[] | undefined>>;

export const assignmentProblems = (reader: Pick<CloudStore | Tx, "get">, wanted: Wanted): Problem[] =>
  taggedKinds.flatMap(({ kind, member }) =>
    (wanted[member] ?? []).flatMap((id, index) =>
      reader.get(kind, id) ? [] : [{ reason: `No ${kind} has this id.`, field: `${member}[${index}]` }],
    ),
  );

/** Gives the tag to everything that is named. */
export const assign = (tx: Tx, nowMs: number, label: string, wanted: Wanted): void => {
  for (const { kind, member } of taggedKinds) {
    for (const id of wanted[member] ?? []) {
      const row = tx.get(kind, id);
      if (row && !row.tags.includes(label)) tx.update(kind, id, { tags: [...row.tags, label], updatedMs: nowMs });
    }
  }
};

/** Takes the tag from everything, and itself away. */
export const removeTag = (tx: Tx, nowMs: number, label: string): void => {
  for (const { of, row } of carriers(tx, label)) {
    tx.update(of.kind, row.id, { tags: row.tags.filter((tag) => tag !== label), updatedMs: nowMs });
  }
  for (const row of tx.list("tag")) if (row.label === label) tx.remove("tag", row.id);
};
