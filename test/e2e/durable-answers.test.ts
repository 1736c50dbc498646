import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { launch } from "../soak/own-process.js";
import { commandLineGround } from "../support/cloud.js";
import { bytesIn, mayTrace, printed, type SystemCall, systemCalls, tracing } from "../support/system-calls.js";
import { until } from "../support/until.js";

const traced = ["pwrite64", "write", "writev", "sendto", "sendmsg", "fsync", "fdatasync", "rename"];

/** Every change is an HTTP answer here: its bytes leave only after a sync that began when the change was in the journal. */
test.skipIf(!mayTrace())(
  "no answer leaves before its change is synced, and no machine's record has its name before it is",
  { timeout: 120_000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "backlot-traced-"));
    const state = join(folder, "state");
    const file = join(folder, "trace");
    const { privatePool, balancerAddresses } = await commandLineGround();
    const words = [
      "--state",
      state,
      "--runtime",
      "process",
      "--private-pool",
      privatePool,
      "--balancer-addresses",
      balancerAddresses,
      "--dns-port",
      "off",
    ];
    const { serving, child } = launch(words, { before: ["strace", ...tracing(file, traced)] });
    const backlot = await serving;
    if (!backlot) throw new Error("it did not start");
    const { api, pid } = backlot;
    const { body: balancer } = await api.post("/v4/balancers", { label: "traced", region: "us-east" });
    const labels = Array.from({ length: 40 }, (_, index) => `renamed-${index}-time`);
    for (const label of labels.slice(0, 10)) expect((await api.put(`/v4/balancers/${balancer.id}`, { label })).status).toBe(200);
    const made = await Promise.all(labels.slice(10).map((label) => api.post("/v4/balancers", { label, region: "us-east" })));
    expect(made.map(({ status }) => status)).toEqual(made.map(() => 200));
    const wanted = { label: "machine", region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call" };
    const { body: instance } = await api.post("/v4/cloud/instances", wanted);
    await until(async () => (await api.get(`/v4/cloud/instances/${instance.id}`)).body.status === "running", { withinMs: 30_000 });
    await api.del(`/v4/cloud/instances/${instance.id}`);
    await until(async () => (await api.get(`/v4/cloud/instances/${instance.id}`)).status === 404, { withinMs: 30_000 });
    // The tracer ends with the program it traces.
    process.kill(pid, "SIGTERM");
    await until(() => child.exitCode !== null, { withinMs: 30_000, what: "the end of the tracer" });

    const calls = systemCalls(readFileSync(file, "utf8"));
    rmSync(folder, { recursive: true, force: true });
    const find = (what: string, holds: (call: SystemCall) => boolean): SystemCall => {
      const call = calls.find(holds);
      if (!call) throw new Error(`the trace has no ${what}`);
      return call;
    };
    const isSync = ({ name }: SystemCall): boolean => name === "fdatasync" || name === "fsync";
    for (const label of labels) {
      const words = printed(`"label":"${label}"`);
      const change = find(
        `change of ${label}`,
        ({ name, text }) => name === "pwrite64" && text.includes(printed("/journal.")) && text.includes(words),
      );
      const sync = find(`sync of ${label}`, (call) => isSync(call) && call.text.includes(printed("/journal.")) && call.began > change.ended);
      const answer = find(
        `answer with ${label}`,
        ({ name, text }) => name !== "pwrite64" && text.includes(printed("socket:")) && text.includes(words),
      );
      expect(sync.result).toBe(0);
      expect(answer.began, label).toBeGreaterThan(sync.ended);
    }
    const records = calls.filter(({ name, args }) => name === "rename" && bytesIn(args[1])?.toString().endsWith("/machine.json"));
    expect(records.length).toBeGreaterThan(0);
    for (const { began } of records) {
      const lastWrite = calls.findLast(
        ({ ended, name, text }) =>
          ended < began && name !== "rename" && !isSync({ name } as SystemCall) && text.includes(printed("/machine.json.new")),
      );
      const sync = calls.findLast((call) => call.ended < began && isSync(call) && call.text.includes(printed("/machine.json.new")));
      expect(sync?.began).toBeGreaterThan(lastWrite?.ended ?? Number.POSITIVE_INFINITY);
    }
  },
);
