import { z } from "zod";
import { customSchema } from "../../kernel/field.js";
import { route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { bootChoice } from "../profiles/boot-choice.js";
import { profileEntity } from "../profiles/profile.js";
import { requireInstance } from "./instance.js";
import { requireLegal } from "./rules.js";
import { overtakeJob, startJob } from "./start-job.js";

/** boot, reboot and shutdown: the row says what is wanted and carries the job; the machines loop makes it true. */
const verbRoute = (verb: "boot" | "reboot" | "shutdown", summary: string) =>
  route<Cloud, { configId?: number | null | undefined }>({
    method: "POST",
    path: `/v4/cloud/instances/:instanceId/${verb}`,
    scope: "instances",
    summary,
    body: customSchema(z.object({ configId: z.int().nullish() })),
    answers: "empty",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireLegal(cloud.store, row, verb);
        const username = caller?.username;
        if (verb === "shutdown") {
          startJob(tx, cloud, row, { verb }, { username }, { power: "off" });
          return;
        }
        const { profile, disk } = bootChoice(tx, row, body.configId ?? undefined);
        overtakeJob(tx, cloud, row);
        const patch = { power: "on" as const, boots: row.boots + 1, diskId: disk.id, profileId: profile.id, rescue: false };
        startJob(tx, cloud, row, { verb }, { username, secondary: profileEntity(profile) }, patch);
      }),
  });

export const powerRoutes = [
  verbRoute("boot", "Boots an instance that is offline, with the config of `config_id`, the only one, or the last one booted."),
  verbRoute("reboot", "Restarts a running instance; a config is chosen as at boot."),
  verbRoute("shutdown", "Stops a running instance."),
];
