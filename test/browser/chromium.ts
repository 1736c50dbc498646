import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

const executablePath = "/usr/bin/chromium";

export const hasChromium = existsSync(executablePath);

/** Debian's Chromium, without any traffic of its own. */
export const openChromium = (): Promise<Browser> =>
  chromium.launch({
    executablePath,
    headless: true,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--disable-component-update",
      "--no-first-run",
    ],
  });
