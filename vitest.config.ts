import { defineConfig } from "vitest/config";

// Tests run what ships: `#backlot/…` is the built `dist/`, loaded by Node itself, worker thread included.
const shared = {
  server: { deps: { external: [/\/dist\//] } },
  retry: 0,
  testTimeout: 60_000,
  hookTimeout: 120_000,
};

// CI sums the suites up; config/ stays the only reader of the product's own environment.
const report = process.env.CI_REPORT;

export default defineConfig({
  test: {
    // Files mostly wait for states of the world: vitest's own choice, one less than the processors, would leave two cores half idle.
    maxWorkers: "100%",
    ...(report === undefined ? {} : { reporters: ["default", ["json", { outputFile: report }]] }),
    projects: [
      { test: { ...shared, name: "fast", sequence: { groupOrder: 0 }, include: ["test/{unit,contract,api}/**/*.test.ts"] } },
      { test: { ...shared, name: "balancer", sequence: { groupOrder: 0 }, include: ["test/balancer/**/*.test.ts"] } },
      // Engine and whole-program tests share the machine's ports and networks, so they take turns, one project after the other.
      {
        test: {
          ...shared,
          name: "docker",
          globalSetup: "test/support/engine-notice.ts",
          sequence: { groupOrder: 1 },
          include: ["test/docker/**/*.test.ts"],
          fileParallelism: false,
        },
      },
      {
        test: {
          ...shared,
          name: "browser",
          globalSetup: "test/support/chromium-notice.ts",
          sequence: { groupOrder: 2 },
          include: ["test/browser/**/*.test.ts"],
          fileParallelism: false,
        },
      },
      { test: { ...shared, name: "e2e", sequence: { groupOrder: 3 }, include: ["test/e2e/**/*.test.ts"], fileParallelism: false } },
    ],
  },
});
