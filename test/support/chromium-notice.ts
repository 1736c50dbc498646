import { existsSync } from "node:fs";

/** Says out loud, once, that the browser's tests are skipped. `BACKLOT_REQUIRE_BROWSER=1` makes its absence a failure. */
export const setup = (): void => {
  if (existsSync("/usr/bin/chromium")) return;
  if (process.env.BACKLOT_REQUIRE_BROWSER === "1") throw new Error("/usr/bin/chromium is not there: apt-get install chromium.");
  console.warn("SKIPPED: no /usr/bin/chromium, so nothing was tried in a browser (Debian: apt-get install chromium).");
};
