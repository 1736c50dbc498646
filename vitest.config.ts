import { defineConfig } from "vitest/config";

// Tests run what ships: `#backlot/…` is the built `dist/`, loaded by Node itself, worker thread included.
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    server: { deps: { external: [/\/dist\//] } },
    retry: 0,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
