import type { Entity } from "../events/event.js";

/** Something the user should know of now (contract 14.6). Not an event: it goes when its cause does. */
export interface Notice {
  /** A few words. */
  label: string;
  /** One sentence: what, why, and what to do. */
  message: string;
  /** Contract 14.6's words; most things of a local cloud are a `notice`, what hinders everything is an `outage`. */
  type: "outage" | "payment_due" | "notice";
  severity: "minor" | "major" | "critical";
  entity: Entity | null;
  /** Since when, real ms; null when nobody knows. */
  sinceMs: number | null;
  /** When it is old news, real ms; absent: it lasts as long as its cause. */
  untilMs?: number | undefined;
}

/** What loops noticed, in memory. What can be seen in rows and observations needs none: `derivedNotices` reads it. */
export interface Notices {
  /** Says what is, under a name of the caller's; undefined takes it back. Telling it again keeps the time of the first. */
  note(key: string, notice: Omit<Notice, "sinceMs"> | undefined): void;
  list(): readonly Notice[];
}

export const openNotices = (now: () => number): Notices => {
  const held = new Map<string, Notice>();
  return {
    note: (key, notice) => {
      if (notice) held.set(key, { ...notice, sinceMs: held.get(key)?.sinceMs ?? now() });
      else held.delete(key);
    },
    list: () => {
      for (const [key, { untilMs }] of held) if (untilMs !== undefined && untilMs <= now()) held.delete(key);
      return [...held.values()];
    },
  };
};
