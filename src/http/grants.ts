import { Fault } from "../kernel/fault.js";
import type { Call, Caller, Listing, Route } from "../kernel/route.js";
import { addressRow } from "../resources/addresses/address.js";
import type { Cloud, CloudStore, Tx } from "../resources/cloud.js";
import type { Entity, EventRow } from "../resources/events/event.js";
import { addGrant, entityExists, type GrantKind, type Grants, grantKinds, permissionOn, withMade } from "../resources/users/grants.js";
import type { UserRow } from "../resources/users/user.js";

/** Where the things live that restricted users are given one by one (contract 14.5). Everything else is derived from a route's path. */
const collections: Readonly<Record<string, GrantKind>> = {
  "/v4/balancers": "balancer",
  "/v4/cloud/instances": "instance",
  "/v4/cloud/scripts": "script",
  "/v4/domains": "domain",
  "/v4/images": "image",
  "/v4/volumes": "volume",
};

/** Last parts of paths below a collection, or below one of its things, that make a new thing of its kind. */
const makers = ["clone", "import", "upload"];

/** Members of bodies that name another thing, and what must be allowed with it. */
const references: Readonly<Record<string, { kind: GrantKind; write: boolean }>> = {
  cloudId: { kind: "instance", write: true },
  scriptId: { kind: "script", write: false },
  image: { kind: "image", write: false },
  volumeId: { kind: "volume", write: true },
};

const unauthorized = (): Fault => new Fault("forbidden", [{ reason: "Unauthorized" }]);

interface Place {
  kind: GrantKind;
  /** Parameter that names the thing; undefined for the collection itself. */
  param: string | undefined;
  makes: boolean;
}

/** What a path is about, read off the path alone: new routes need no line here. */
const placeOf = ({ path, method }: Pick<Route<never>, "path" | "method">): Place | undefined => {
  const found = Object.entries(collections).find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`));
  if (!found) return undefined;
  const [prefix, kind] = found;
  const rest = path.slice(prefix.length + 1).split("/");
  const param = /^[:*](\w+)$/.exec(rest[0] ?? "")?.[1];
  return { kind, param, makes: method === "POST" && (path === prefix || makers.includes(rest.at(-1) ?? "")) };
};

/** The number in `12` or `private/12`; undefined for what is nobody's, such as `cloud/debian12`. */
const numberOf = (id: unknown): number | undefined => {
  if (typeof id === "number") return id;
  const digits = typeof id === "string" ? /^(?:private\/)?([1-9]\d{0,14})$/.exec(id)?.[1] : undefined;
  return digits === undefined ? undefined : Number(digits);
};

/** Catalogue entries are not rows of the account, and what is public is everybody's to read. */
const isOpen = (cloud: Cloud, kind: GrantKind, id: number | undefined): boolean =>
  id === undefined || !entityExists(cloud.store, kind, id) || (cloud.store.get(kind as "instance", id) as { isPublic?: boolean }).isPublic === true;

const requireOn = (cloud: Cloud, grants: Grants, kind: GrantKind, id: number | undefined, write: boolean): void => {
  const permission = id === undefined ? null : permissionOn(grants, kind, id);
  if (permission === "read_write" || (permission === "read_only" && !write)) return;
  // What does not exist is the route's to say; so is that nobody changes the catalogue.
  if (isOpen(cloud, kind, id) && (!write || id === undefined || !entityExists(cloud.store, kind, id))) return;
  throw unauthorized();
};

const holderOf = (cloud: Cloud, address: string | undefined): number | undefined => addressRow(cloud.store, address ?? "")?.instanceId ?? undefined;

const requireAccount = (grants: Grants, write: boolean): void => {
  const access = grants.global.accountAccess;
  if (access !== "read_write" && (write || access === null)) throw unauthorized();
};

/** Refuses (403, contract 4.1) what a restricted user's grants do not allow. Asked before anything else is said about the request. */
export const requireGranted = (
  cloud: Cloud,
  user: UserRow,
  route: Route<never>,
  { params, texts }: { params: Call<never, never>["params"]; texts: Record<string, string> },
): void => {
  const { grants } = user;
  const { path, scope } = route;
  const write = route.method !== "GET";
  const place = placeOf(route);
  if (place) {
    if (place.makes && !grants.global[addGrant[place.kind]]) throw unauthorized();
    const id = place.param === undefined ? undefined : numberOf(params[place.param] ?? texts[place.param]);
    if (place.param !== undefined) requireOn(cloud, grants, place.kind, id, write && !place.makes);
    else if (write && !place.makes) throw unauthorized();
  } else if (path.startsWith("/v4/networking/")) {
    if (texts.address !== undefined) requireOn(cloud, grants, "instance", holderOf(cloud, texts.address), write);
  } else if (path.startsWith("/v4/account/events")) {
    const row = params.eventId === undefined ? undefined : cloud.store.get("event", params.eventId);
    if (row && !isEventVisible(cloud, user, row)) throw unauthorized();
  } else if (path.startsWith("/v4/tags")) {
    // They show and change things of every kind, whoever was granted them.
    throw unauthorized();
  } else if (path === "/v4/account" || path.startsWith("/v4/account/")) {
    if (scope !== null) requireAccount(grants, write);
  } else if (scope === "*" || (write && !path.startsWith("/v4/profile"))) throw unauthorized();
};

/** Refuses a body that names a thing the user was not given, at any depth. */
export const requireReferences = (cloud: Cloud, { grants }: UserRow, body: unknown): void => {
  if (typeof body !== "object" || body === null || Buffer.isBuffer(body)) return;
  for (const [name, value] of Object.entries(body)) {
    const reference = Object.hasOwn(references, name) ? references[name] : undefined;
    if (reference) requireOn(cloud, grants, reference.kind, numberOf(value), reference.write);
    else if (name === "diskId") requireOn(cloud, grants, "instance", cloud.store.get("disk", numberOf(value) ?? 0)?.instanceId, false);
    else if (name === "backupId") requireOn(cloud, grants, "instance", cloud.store.get("backup", numberOf(value) ?? 0)?.instanceId, false);
    else if (name === "address" && typeof value === "string") requireOn(cloud, grants, "instance", holderOf(cloud, value), true);
    else if (name === "ips" && Array.isArray(value)) for (const ip of value) requireOn(cloud, grants, "instance", holderOf(cloud, String(ip)), true);
    else requireReferences(cloud, { grants } as UserRow, value);
  }
};

const isGrantKind = (kind: string): kind is GrantKind => (grantKinds as readonly string[]).includes(kind);

const isEntityVisible = (cloud: Cloud, { grants }: UserRow, { kind, id, parentId }: Entity): boolean => {
  const mayRead = (of: GrantKind, wanted: unknown): boolean => typeof wanted === "number" && permissionOn(grants, of, wanted) !== null;
  if (isGrantKind(kind)) return mayRead(kind, numberOf(id));
  if (kind === "config" || kind === "node") return mayRead("balancer", parentId);
  if (kind === "disk" || kind === "profile") return mayRead("instance", parentId);
  if (kind === "ipaddress") return mayRead("instance", holderOf(cloud, String(id)));
  return grants.global.accountAccess !== null;
};

const isEventVisible = (cloud: Cloud, user: UserRow, { username, entity }: EventRow): boolean =>
  username === user.username || (entity ? isEntityVisible(cloud, user, entity) : user.grants.global.accountAccess !== null);

/** What everybody may read of. Not what is gone: `isOpen` leaves that to the route, and here nobody asks any further. */
const isPublished = ({ store, catalogue }: Cloud, { kind, id }: Entity): boolean => {
  const number = numberOf(id);
  if (kind === "image") return number === undefined;
  return kind === "script" && (catalogue.scripts.some((script) => script.id === number) || store.get("script", number ?? 0)?.isPublic === true);
};

/** An event that may be seen says nothing of another thing that may not. */
const withoutHidden = (cloud: Cloud, user: UserRow, row: EventRow): EventRow => {
  const { secondary } = row;
  return secondary === null || isPublished(cloud, secondary) || isEntityVisible(cloud, user, secondary) ? row : { ...row, secondary: null };
};

/** A list without what a restricted user was not given. */
export const visible = (cloud: Cloud, user: UserRow, route: Route<never>, listing: Listing): Listing => {
  const last = `/${route.path.split("/").at(-1)}`;
  const only = (isShown: (row: never) => boolean): Listing => ({ ...listing, rows: listing.rows.filter(isShown as (row: unknown) => boolean) });
  if (last === "/events") {
    const seen = only((row: EventRow) => isEventVisible(cloud, user, row));
    return { ...seen, view: (row) => listing.view(withoutHidden(cloud, user, row as EventRow) as never) };
  }
  const mayRead = (kind: GrantKind, id: number | undefined) => isOpen(cloud, kind, id) || permissionOn(user.grants, kind, id ?? 0) !== null;
  if (last === "/ips") return only((row: { instanceId?: number | null }) => mayRead("instance", row.instanceId ?? undefined));
  const kind = Object.entries(collections).find(([path]) => path.endsWith(last))?.[1];
  return kind ? only((row: never) => mayRead(kind, numberOf(listing.fieldValue(row, "id")))) : listing;
};

/**
 * The cloud as a restricted user has it: whatever they make they may do everything with, from the same commit on, and an event they read
 * names nothing that they may not see.
 */
export const cloudOf = (cloud: Cloud, reader: UserRow): Cloud => {
  const userId = reader.id;
  const granting = (tx: Tx): Tx => ({
    ...tx,
    insert: (kind, row) => {
      const made = tx.insert(kind, row);
      const user = tx.get("user", userId);
      if (user && (grantKinds as readonly string[]).includes(kind)) {
        tx.update("user", userId, { grants: withMade(user.grants, kind as GrantKind, made.id) });
      }
      return made;
    },
  });
  const { store } = cloud;
  const get: CloudStore["get"] = (kind, id) => {
    const row = store.get(kind, id);
    return row && kind === "event" ? (withoutHidden(cloud, reader, row as unknown as EventRow) as unknown as typeof row) : row;
  };
  const mayName: Cloud["mayName"] = (kind, id) => permissionOn(reader.grants, kind, id) !== null;
  return { ...cloud, mayName, store: { ...store, get, commit: (change) => store.commit((tx) => change(granting(tx))) } };
};

/** The row behind a caller whose grants restrict; undefined for everybody else. */
export const restrictedUser = ({ store }: Cloud, caller: Caller | undefined): UserRow | undefined => {
  const user = caller && store.get("user", caller.userId);
  return user?.restricted ? user : undefined;
};
