import { balanceCents, usdOf } from "../billing/invoice.js";
import { type Cloud, type CloudStore, observed } from "../cloud.js";
import { configEntity, configView } from "../configs/config.js";
import type { EventRow } from "../events/event.js";
import { instanceEntity } from "../instances/instance.js";
import { volumeEntity } from "../volumes/volume.js";
import type { Notice } from "./notices.js";

/** Actions that bring a machine up; the newest of them says whether it came. */
const starts = new Set(["instance_create", "instance_boot", "instance_reboot", "instance_rebuild", "host_reboot", "lassie_reboot"]);

/** The newest start of every instance that is `wanted`; reads events from the newest on, and no further than it must. */
const lastStarts = (store: CloudStore, wanted: Set<number>): Map<number, EventRow> => {
  const found = new Map<number, EventRow>();
  const events = store.list("event");
  for (let at = events.length - 1; at >= 0 && found.size < wanted.size; at -= 1) {
    const event = events[at];
    const id = event?.entity?.kind === "instance" ? event.entity.id : undefined;
    if (event && typeof id === "number" && wanted.has(id) && !found.has(id) && starts.has(event.action)) found.set(id, event);
  }
  return found;
};

/** Instances that should run and do not: those that did not come up, and those that died. */
const downInstances = ({ store }: Pick<Cloud, "store">): Notice[] => {
  const idle = store.list("instance").filter((row) => row.job === null && observed(store, "instance", row.id)?.running !== true);
  const last = lastStarts(store, new Set(idle.map((row) => row.id)));
  return idle.flatMap((row): Notice[] => {
    const event = last.get(row.id);
    const problem = observed(store, "instance", row.id)?.problem;
    if (event?.status !== "failed") {
      if (row.power === "off" || !problem) return [];
      const message = `${row.label}: ${problem}${row.watchdogEnabled ? " Its watchdog restarts it." : ""}`;
      return [{ label: "An instance is down", message, type: "notice", severity: "major", entity: instanceEntity(row), sinceMs: null }];
    }
    return [
      {
        label: "An instance did not boot",
        message: `${row.label}: ${event.message}`,
        type: "notice",
        severity: "major",
        entity: instanceEntity(row),
        sinceMs: event.endedMs,
      },
    ];
  });
};

const substitutedImages = ({ store }: Pick<Cloud, "store">): Notice[] =>
  store.list("instance").flatMap((row): Notice[] => {
    const substitute = observed(store, "instance", row.id)?.substitutedImage;
    if (!substitute) return [];
    const message = `${row.image} cannot be had on this machine, so ${row.label} runs ${substitute} instead (--image-fallback).`;
    return [{ label: "Another image was booted", message, type: "notice", severity: "minor", entity: instanceEntity(row), sinceMs: null }];
  });

/** Listeners that could not be opened; what is only recorded (udp) is no failure. */
const failedListeners = ({ store }: Pick<Cloud, "store">): Notice[] =>
  store.list("config").flatMap((row): Notice[] => {
    if (row.protocol === "udp") return [];
    const { listener } = configView(store, row);
    if (listener.status !== "failed") return [];
    const message = `Port ${row.port} of balancer ${store.get("balancer", row.balancerId)?.label ?? row.balancerId} does not listen: ${listener.reason}`;
    return [{ label: "A port does not listen", message, type: "notice", severity: "major", entity: configEntity(row), sinceMs: null }];
  });

/** Volumes whose last job could not be done, or that are not where they should be. */
const troubledVolumes = ({ store }: Pick<Cloud, "store">): Notice[] =>
  store.list("volume").flatMap((row): Notice[] => {
    const problem = observed(store, "volume", row.id)?.problem;
    if (!problem) return [];
    const message = `${row.label}: ${problem}`;
    return [{ label: "A volume is not as wanted", message, type: "notice", severity: "major", entity: volumeEntity(row), sinceMs: null }];
  });

/** Contract 12: the public API says so too, since it answers for nothing that runs there. */
const idleDomains = ({ store }: Pick<Cloud, "store">): Notice[] => {
  const { length } = store.list("domain");
  if (length === 0 || store.list("instance").length > 0) return [];
  const message = `The account has ${length === 1 ? "a domain" : `${length} domains`} and no instance. The names are answered all the same.`;
  return [{ label: "Domains without instances", message, type: "notice", severity: "minor", entity: null, sinceMs: null }];
};

const unpaidBalance = ({ store }: Pick<Cloud, "store">): Notice[] => {
  const owed = balanceCents(store);
  if (owed <= 0) return [];
  const message = `${usdOf(owed).toFixed(2)} USD are unpaid. No money moves here and nothing is switched off; POST /v4/account/payments notes a payment.`;
  const newest = store.list("invoice").at(-1);
  return [{ label: "There is an unpaid balance", message, type: "payment_due", severity: "minor", entity: null, sinceMs: newest?.issuedMs ?? null }];
};

/** What can be read off the rows and what was observed of them: one line a source. */
const sources: ReadonlyArray<(cloud: Pick<Cloud, "store">) => Notice[]> = [
  downInstances,
  substitutedImages,
  failedListeners,
  troubledVolumes,
  idleDomains,
  unpaidBalance,
];

export const derivedNotices = (cloud: Pick<Cloud, "store">): Notice[] => sources.flatMap((source) => source(cloud));
