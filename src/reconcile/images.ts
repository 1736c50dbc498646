import type { Disposable } from "../kernel/closers.js";
import { Fault, reasonOf } from "../kernel/fault.js";
import type { Cloud } from "../resources/cloud.js";
import { moveEvent } from "../resources/events/event.js";
import { type ImageRow, imageSlug } from "../resources/images/image.js";
import type { RuntimeDriver } from "../runtime/driver.js";
import { openLoop, type Turn } from "./loop.js";

interface ImagesOptions {
  cloud: Cloud;
  driver: Pick<RuntimeDriver, "images">;
  onFailure(image: number, error: unknown): void;
}

/** How often a copy that a machine still rests on is tried to be removed again, in real ms. */
const inUseMs = 5_000;

/** Makes images from disks, and removes those that no row explains. Its key is the number in `private/NUMBER`. */
export const openImages = ({ cloud, driver, onFailure }: ImagesOptions): Disposable => {
  const { store } = cloud;

  const make = async (row: ImageRow, signal: AbortSignal): Promise<void> => {
    await store.commit((tx) => moveEvent(tx, cloud, row.eventId, "started"));
    try {
      const captured = await driver.images.capture(row.instanceId, row.fileSystem, imageSlug(row));
      if (!captured) {
        const reason = "There is nothing on the disk yet: it is filled when the instance boots for the first time. Boot it once.";
        throw new Fault("unavailable", [{ reason }]);
      }
      await store.commit((tx) => {
        if (!tx.get("image", row.id)) return;
        tx.update("image", row.id, { status: "available", sizeMb: captured.sizeMb, updatedMs: cloud.clock.now() });
        moveEvent(tx, cloud, row.eventId, "finished");
      });
    } catch (error) {
      if (signal.aborted) throw error;
      await store.commit((tx) => {
        if (tx.get("image", row.id)) moveEvent(tx, cloud, row.eventId, "failed", reasonOf(error));
        tx.remove("image", row.id);
      });
    }
  };

  const reconcile = async (id: number, { signal }: Turn): Promise<number | undefined> => {
    const row = store.get("image", id);
    if (!row) return (await driver.images.remove(imageSlug({ id }))) ? undefined : inUseMs;
    if (row.status === "creating") await make(row, signal);
    return undefined;
  };

  const loop = openLoop({ reconcile, clock: cloud.clock, onFailure, concurrency: 2 });
  const watching = store.watch((kind, id) => {
    if (kind === "image") loop.poke(id);
  });
  for (const row of store.list("image")) if (row.status === "creating") loop.poke(row.id);
  const orphans = driver.images.list().then(
    (found) => {
      for (const { key } of found) {
        const id = Number(key.replace(/^private\//, ""));
        if (!store.get("image", id)) loop.poke(id);
      }
    },
    (error) => onFailure(0, error),
  );

  return {
    close: async () => {
      await watching.close();
      await orphans;
      await loop.close();
    },
  };
};
