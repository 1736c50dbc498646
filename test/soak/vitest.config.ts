import { defineConfig } from "vitest/config";

// `npm run soak`: what CI does for a bounded number of times, done for the full number. Hours are pressed into minutes.
export default defineConfig({
  test: {
    server: { deps: { external: [/\/dist\//] } },
    retry: 0,
    testTimeout: 30 * 60_000,
    hookTimeout: 120_000,
    include: ["test/soak/**/*.soak.ts"],
    fileParallelism: false,
    globalSetup: "test/support/engine-notice.ts",
  },
});
