/** What a verb needs to know beside the row. */
export type Work =
  | { verb: "create" | "boot" | "reboot" | "shutdown" | "delete" | "watchdog" | "rescue" | "restore" }
  /** `dropped` names the file systems that are no more. */
  | { verb: "rebuild"; dropped: string[] }
  | { verb: "disk_create" | "disk_delete" | "disk_duplicate"; diskId: number }
  | { verb: "disk_resize"; diskId: number; size: number }
  | { verb: "password_reset"; diskId: number }
  /** `warm`: without a restart. `growDiskId` is the disk that takes what the new plan adds. */
  | { verb: "resize" | "mutate"; type: string; warm: boolean; growDiskId: number | null }
  | { verb: "migrate"; region: string }
  /** On the target; the source waits with `clone_source` under the same event. */
  | { verb: "clone"; source: number }
  | { verb: "clone_source"; target: number };

/** A verb that the machines loop has yet to make true. Its event moves with it; it survives a crash, so nothing is lost. */
export type Job = Work & { eventId: number };

export type Verb = Job["verb"];

/** Contract 9.3: the word for an instance while a verb is under way; a verb that is not here leaves what is measured. */
export const statusWords: Readonly<Partial<Record<Verb, string>>> = {
  create: "provisioning",
  boot: "booting",
  reboot: "rebooting",
  shutdown: "shutting_down",
  delete: "deleting",
  watchdog: "booting",
  rescue: "rebooting",
  rebuild: "rebuilding",
  restore: "restoring",
  resize: "resizing",
  mutate: "migrating",
  migrate: "migrating",
  clone: "cloning",
  clone_source: "cloning",
};
