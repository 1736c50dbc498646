import { test } from "vitest";
import { expectNoHandleLeft } from "../support/closing.js";
import { describeDocker } from "../support/docker.js";

describeDocker("a library instance on the engine", () => {
  test("that is closed leaves no handle: its process ends by itself", { timeout: 60_000 }, () => expectNoHandleLeft({ runtime: "docker" }));
});
