import { engineAnswers } from "#backlot/runtime/docker/engine.js";

/** Run once before the Docker suites: says in one line why they are skipped, and how to get them. */
export const setup = async (): Promise<void> => {
  const engine = await engineAnswers();
  if ("version" in engine || process.env.BACKLOT_REQUIRE_DOCKER === "1") return;
  console.warn(`SKIPPED: the Docker suites. ${engine.reason} Run \`sudo docker/ensure-engine.sh && docker/ensure-guest.sh\`, then the tests again.`);
};
