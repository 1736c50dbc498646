import type Docker from "dockerode";
import { endOf, type SeenContainer } from "./container.js";
import { tolerating } from "./engine.js";
import { type GuestState, guestState } from "./guest-files.js";

export interface SettledGuests {
  /** The container as it is now, with what its guest says. */
  look(box: Docker.Container, seen: SeenContainer): Promise<[SeenContainer, GuestState]>;
  /** The driver is about to change what the guest would say. */
  forget(id: string): void;
  /** Drops all but these. */
  keepOnly(ids: readonly string[]): void;
}

/**
 * Reading a file in a container costs the engine 40 ms of processor time, an inspection 1 ms. So a guest is not asked again while it can say
 * nothing new: same start, same stop, and no deploy script under way. A rest of "ask the world": the inspection is made every time.
 */
export const settledGuests = (): SettledGuests => {
  const settled = new Map<string, { times: string; guest: GuestState }>();
  return {
    look: async (box, seen) => {
      // Gone while we looked: the engine's list lags behind its "die" event (it reads a copy); an inspection waits for the container itself.
      let state = seen.state === "running" ? "exited" : seen.state;
      let times = "";
      let end: string | undefined;
      await tolerating([404], async () => {
        const { State } = await box.inspect();
        state = State.Status;
        end = endOf(State);
        times = `${State.StartedAt} ${State.FinishedAt}`;
      });
      const now = { ...seen, state, end };
      const known = settled.get(seen.id);
      if (known && known.times === times) return [now, known.guest];
      const guest = await guestState(box);
      const scriptIsOver = !seen.hasScript || guest.exitCode !== null || state === "exited";
      if (scriptIsOver && times !== "") settled.set(seen.id, { times, guest });
      return [now, guest];
    },
    forget: (id) => void settled.delete(id),
    keepOnly: (ids) => {
      const kept = new Set(ids);
      for (const id of settled.keys()) if (!kept.has(id)) settled.delete(id);
    },
  };
};
