import type { Clock } from "../kernel/clock.js";
import type { Soa, ZoneRecord } from "../kernel/names.js";
import type { Row, Rows, Store, Transaction } from "../store/store.js";
import type { AccountRow } from "./account/account.js";
import type { AddressRow, FreedAddressRow, SliceRow } from "./addresses/address.js";
import type { BackupRow } from "./backups/backup.js";
import type { BalancerRow } from "./balancers/balancer.js";
import type { ObservedBalancer } from "./balancers/stats.js";
import type { BilledTime } from "./billing/billed-time.js";
import type { BillingRow, InvoiceRow } from "./billing/invoice.js";
import type { PaymentMethodRow, PaymentRow } from "./billing/payment.js";
import type { UsageRow } from "./billing/usage.js";
import type { Catalogue } from "./catalogue/catalogue.js";
import type { ConfigRow, ObservedListener } from "./configs/config.js";
import type { DiskRow } from "./disks/disk.js";
import type { DomainRow, ObservedDomain } from "./domains/domain.js";
import type { EventRow } from "./events/event.js";
import type { ImageRow } from "./images/image.js";
import type { InstanceRow, ObservedInstance } from "./instances/instance.js";
import type { MeterRow, ObservedStats } from "./instances/meter.js";
import type { LoginRow } from "./logins/login.js";
import type { NodeRow, ObservedNode } from "./nodes/node.js";
import type { Notices } from "./notifications/notices.js";
import type { ClientRow } from "./oauth/client.js";
import type { CodeRow, GrantRow } from "./oauth/grant.js";
import type { SshKeyRow } from "./profile/ssh-key.js";
import type { ProfileRow } from "./profiles/profile.js";
import type { RecordRow } from "./records/record.js";

import { type DeploymentRow, firstOwnScriptId, type ScriptRow } from "./scripts/script.js";
import type { TagRow } from "./tags/tag.js";
import type { TokenRow } from "./tokens/token.js";
import type { TransferMonthRow } from "./transfer/transfer.js";
import type { UserRow } from "./users/user.js";
import type { ObservedVolume, VolumeRow } from "./volumes/volume.js";

/** Everything on disk, by kind. */
export interface Kinds {
  balancer: BalancerRow;
  config: ConfigRow;
  node: NodeRow;
  instance: InstanceRow;
  disk: DiskRow;
  profile: ProfileRow;
  address: AddressRow;
  freedAddress: FreedAddressRow;
  slice: SliceRow;
  domain: DomainRow;
  record: RecordRow;
  event: EventRow;
  token: TokenRow;
  pool: PoolRow;
  account: AccountRow;
  billing: BillingRow;
  usage: UsageRow;
  invoice: InvoiceRow;
  payment: PaymentRow;
  paymentMethod: PaymentMethodRow;
  transferMonth: TransferMonthRow;
  meter: MeterRow;
  tag: TagRow;
  script: ScriptRow;
  image: ImageRow;
  backup: BackupRow;
  deployment: DeploymentRow;
  user: UserRow;
  sshKey: SshKeyRow;
  login: LoginRow;
  oauthClient: ClientRow;
  oauthCode: CodeRow;
  oauthGrant: GrantRow;
  volume: VolumeRow;
}

/** What a state was made for, chosen at its first start (one row). */
interface PoolRow extends Row {
  runtime: "docker" | "process";
  /** CIDR of the public addresses. */
  publicPool: string;
}

export const kinds: readonly (keyof Kinds)[] = [
  "balancer",
  "config",
  "node",
  "instance",
  "disk",
  "profile",
  "address",
  "freedAddress",
  "slice",
  "domain",
  "record",
  "event",
  "token",
  "pool",
  "account",
  "billing",
  "usage",
  "invoice",
  "payment",
  "paymentMethod",
  "transferMonth",
  "meter",
  "tag",
  "script",
  "image",
  "backup",
  "deployment",
  "user",
  "sshKey",
  "login",
  "oauthClient",
  "oauthCode",
  "oauthGrant",
  "volume",
];

/** Kinds whose ids do not begin with 1. */
export const firstIds: Partial<Record<keyof Kinds, number>> = { script: firstOwnScriptId };

export type CloudStore = Store<Kinds>;
export type Tx = Transaction<Kinds>;
/** What only reads: the store, or a change under way, which sees what it did. */
export type Reader = Rows<Kinds>;

/** What the loops saw last; memory only, so everything may be absent. */
interface ObservedKinds {
  balancer: ObservedBalancer;
  config: ObservedListener;
  node: ObservedNode;
  instance: ObservedInstance;
  domain: ObservedDomain;
  volume: ObservedVolume;
  /** By instance. */
  stats: ObservedStats;
}

export const observed = <N extends keyof ObservedKinds>(store: CloudStore, kind: N, id: number): ObservedKinds[N] | undefined =>
  store.observed(kind, id) as ObservedKinds[N] | undefined;

export const observe = <N extends keyof ObservedKinds>(store: CloudStore, kind: N, id: number, seen: ObservedKinds[N] | undefined): void =>
  store.observe(kind, id, seen);

/** A zone as another name server gave it. */
export interface FetchedZone {
  soa: Soa;
  records: readonly ZoneRecord[];
  /** Types there is no place for here. */
  skipped: readonly string[];
}

/** What the functions of the resources work on. Hidden inputs come in here: time, settings, the catalogue. */
export interface Cloud {
  store: CloudStore;
  clock: Clock;
  catalogue: Catalogue;
  /** Time as the bill counts it. */
  billed: BilledTime;
  /** What loops noticed that the user should know of. */
  notices: Notices;
  /** SHA-256 of this run's control token, which lives in memory and in the 0600 file that `backlot stop` reads. */
  controlHash: string;
  /** Whether the caller may know what another thing is called; absent for whoever sees everything. */
  mayName?(kind: "instance", id: number): boolean;
  /** Fetches a whole zone from another name server (AXFR). Throws an Error with a reason for people. */
  fetchZone(domain: string, place: { host: string; port: number }): Promise<FetchedZone>;
  settings: {
    privatePool: string;
    publicPool: string;
    /** CIDRs that others use on this machine, as last looked at. */
    occupied(): readonly string[];
    balancerAddresses: string;
    certificates: "strict" | "lenient";
  };
}
