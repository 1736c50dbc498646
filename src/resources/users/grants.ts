import { z } from "zod";
import type { Problem } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import { type CloudStore, type Kinds, kinds, type Reader, type Tx } from "../cloud.js";

export type Permission = "read_only" | "read_write";

/** Kinds of things a restricted user is given one by one (contract 14.5), in the order they are shown. */
export const grantKinds = ["balancer", "domain", "image", "instance", "script", "volume"] as const;
export type GrantKind = (typeof grantKinds)[number];

/** The right to create one, by kind. */
export const addGrant = {
  balancer: "addBalancers",
  domain: "addDomains",
  image: "addImages",
  instance: "addInstances",
  script: "addScripts",
  volume: "addVolumes",
} as const satisfies Record<GrantKind, string>;

/** Rights about what does not exist here are kept, because clients send them back; they give nothing. */
const switches = [
  ...Object.values(addGrant),
  "addDatabases",
  "addFirewalls",
  "addLongview",
  "addVpcs",
  "cancelAccount",
  "childAccountAccess",
  "longviewSubscription",
] as const;

/** What a restricted user may. Entities by id, as texts because JSON knows no other keys. */
export interface Grants {
  global: Record<(typeof switches)[number], boolean> & { accountAccess: Permission | null };
  entities: Record<GrantKind, Record<string, Permission>>;
}

export const noGrants = (): Grants => ({
  global: { ...(Object.fromEntries(switches.map((name) => [name, false])) as Record<(typeof switches)[number], boolean>), accountAccess: null },
  entities: { balancer: {}, domain: {}, image: {}, instance: {}, script: {}, volume: {} },
});

export const permissionOn = (grants: Grants, kind: GrantKind, id: number): Permission | null => grants.entities[kind][String(id)] ?? null;

const isStored = (kind: string): kind is keyof Kinds => (kinds as readonly string[]).includes(kind);

/** Rows of a grantable kind; none where this version has no such kind. */
const rowsOf = (reader: Reader, kind: GrantKind): readonly Row[] => (isStored(kind) ? reader.list(kind) : []);

export const entityExists = (reader: Pick<CloudStore | Tx, "get">, kind: GrantKind, id: number): boolean =>
  isStored(kind) && reader.get(kind, id) !== undefined;

const labelOf = (row: Row): string => {
  const { label, domain } = row as { label?: unknown; domain?: unknown };
  return String(label ?? domain ?? "");
};

const PermissionOrNone = z.enum(["read_only", "read_write"]).nullable();
const EntityGrants = z.array(z.object({ id: z.int().positive(), permissions: PermissionOrNone, label: z.string().optional() }));

/** What PUT takes: members left out stay. */
export const GrantsBody = z.object({
  global: z
    .object({ ...Object.fromEntries(switches.map((name) => [name, z.boolean().nullish()])), accountAccess: PermissionOrNone.optional() })
    .nullish(),
  ...Object.fromEntries(grantKinds.map((kind) => [kind, EntityGrants.nullish()])),
});

export type GrantsWanted = { global?: Partial<Grants["global"]> | null } & {
  [K in GrantKind]?: Array<{ id: number; permissions: Permission | null }> | null;
};

/** Contract 14.5: every thing of the account, with what the user may do with it. */
export const grantsView = (reader: Reader, grants: Grants) => ({
  global: grants.global,
  ...Object.fromEntries(
    grantKinds.map((kind) => [
      kind,
      rowsOf(reader, kind).map((row) => ({ id: row.id, label: labelOf(row), permissions: permissionOn(grants, kind, row.id) })),
    ]),
  ),
});

export const grantProblems = (reader: Pick<CloudStore | Tx, "get">, wanted: GrantsWanted): Problem[] =>
  grantKinds.flatMap((kind) =>
    (wanted[kind] ?? []).flatMap(({ id }, index): Problem[] =>
      entityExists(reader, kind, id) ? [] : [{ reason: "Nothing of the account has this number.", field: `${kind}[${index}].id` }],
    ),
  );

const defined = <T extends object>(value: T): Partial<T> =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Partial<T>;

const changedEntities = (held: Record<string, Permission>, wanted: ReadonlyArray<{ id: number; permissions: Permission | null }>) => {
  const next = { ...held };
  for (const { id, permissions } of wanted) {
    if (permissions === null) delete next[String(id)];
    else next[String(id)] = permissions;
  }
  return next;
};

export const changedGrants = (held: Grants, wanted: GrantsWanted): Grants => {
  const { accountAccess, ...rest } = defined(wanted.global ?? {});
  const flags = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
  return {
    global: { ...held.global, ...flags, accountAccess: accountAccess === undefined ? held.global.accountAccess : accountAccess },
    entities: Object.fromEntries(grantKinds.map((kind) => [kind, changedEntities(held.entities[kind], wanted[kind] ?? [])])) as Grants["entities"],
  };
};

/** Who makes a thing may do everything with it. */
export const withMade = (held: Grants, kind: GrantKind, id: number): Grants =>
  changedGrants(held, { [kind]: [{ id, permissions: "read_write" }] } as GrantsWanted);
