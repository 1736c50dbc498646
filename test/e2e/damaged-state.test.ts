import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { kinds } from "#backlot/resources/cloud.js";
import { migrations, schemaVersion } from "#backlot/resources/migrations.js";
import { openStore } from "#backlot/store/open-store.js";
import { launch, started } from "../soak/own-process.js";
import { commandLineGround } from "../support/cloud.js";

let root: string;
let words: string[];
/** A state with a snapshot, the one before it and journals; its balancers are called one, two, three. */
let good: string;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "backlot-damaged-"));
  const { privatePool, balancerAddresses } = await commandLineGround();
  words = ["--runtime", "process", "--private-pool", privatePool, "--balancer-addresses", balancerAddresses, "--dns-port", "off"];
  good = join(root, "good");
  for (const label of ["one", "two", "three"]) {
    const backlot = await started([...words, "--state", good]);
    expect((await backlot.api.post("/v4/balancers", { label, region: "us-east" })).status).toBe(200);
    await backlot.stop();
  }
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const flip = (path: string): void => {
  const bytes = readFileSync(path);
  const at = bytes.length >> 1;
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
};

/** The journal that what the newest snapshot lacks is in, and the one before it. */
const journals = (state: string): string[] =>
  readdirSync(state)
    .filter((name) => name.startsWith("journal."))
    .sort((a, b) => Number(b.split(".")[1]) - Number(a.split(".")[1]))
    .map((name) => join(state, name));

const contents = (state: string): object =>
  Object.fromEntries(
    readdirSync(state).flatMap((name) => (statSync(join(state, name)).isFile() ? [[name, readFileSync(join(state, name), "latin1")]] : [])),
  );

const restored = (state: string) => copyFileSync(join(state, "state.json.previous"), join(state, "state.json"));
const wayBack = /; copy \S+state\.json\.previous over it \(the journals beside it bring that copy up to date\)\.$/;
const newest = (state: string): string => journals(state)[0] ?? "";

interface Case {
  name: string;
  damage(state: string): void | Promise<void>;
  says: RegExp;
  /** What the line advises, done. Absent: the way back is another program or a backup. */
  mend?(state: string): void;
}

const cases: Case[] = [
  { name: "a bit of the snapshot is flipped", damage: (state) => flip(join(state, "state.json")), says: /state\.json is damaged/, mend: restored },
  {
    name: "the snapshot is cut short",
    damage: (state) => truncateSync(join(state, "state.json"), 100),
    says: /state\.json is damaged/,
    mend: restored,
  },
  { name: "the snapshot is empty", damage: (state) => truncateSync(join(state, "state.json"), 0), says: /state\.json is damaged/, mend: restored },
  { name: "the snapshot is gone", damage: (state) => rmSync(join(state, "state.json")), says: /state\.json is missing/, mend: restored },
  {
    name: "another program's file is in its place",
    damage: (state) => writeFileSync(join(state, "state.json"), '{"version":3}\n'),
    says: /state\.json is damaged/,
    mend: restored,
  },
  {
    name: "a folder is in its place",
    damage: (state) => {
      rmSync(join(state, "state.json"));
      mkdirSync(join(state, "state.json"));
    },
    says: /state\.json cannot be read \(EISDIR/,
  },
  {
    name: "a journal is of another state",
    damage: async (state) => {
      const other = join(state, "..", "other");
      const backlot = await started([...words, "--state", other]);
      await backlot.api.post("/v4/balancers", { label: "other", region: "us-east" });
      await backlot.stop();
      // Its name is what it says it begins at, so only its owner gives it away.
      const foreign = journals(other).map((path) => readFileSync(path, "utf8"));
      const first = Number(newest(state).split(".").at(-2));
      const same = foreign.find((text) => text.includes(`"first":${first}}`));
      writeFileSync(newest(state), same ?? foreign[0] ?? "");
    },
    says: /journal\.\d+\.jsonl (belongs to another state|is damaged at line 1)/,
  },
  {
    name: "a journal is gone",
    damage: (state) => rmSync(newest(state)),
    says: /journal\.\d+\.jsonl is missing; put it back, or make an empty file of that name/,
    mend: (state) => writeFileSync(newest(state).replace(/\d+(?=\.jsonl$)/, String(sequenceOf(state) + 1)), ""),
  },
  {
    name: "it was written by a newer Backlot",
    damage: async (state) => {
      const to = schemaVersion + 1;
      const store = await openStore({
        folder: state,
        kinds,
        schemaVersion: to,
        migrations: { ...migrations, [schemaVersion]: (document) => document },
        onProblem: () => {},
      });
      await store.close();
    },
    says: /was written by a newer Backlot \(schema version \d+, this one knows \d+\); start that newer Backlot, or this one with another state folder\.$/,
  },
];

const sequenceOf = (state: string): number => Number(/"sequence":(\d+)/.exec(readFileSync(join(state, "state.json"), "utf8"))?.[1]);

test.each(cases)("$name: the start ends with one line that names the file and the way back, and changes nothing", async ({ damage, says, mend }) => {
  const state = join(mkdtempSync(join(root, "case-")), "state");
  cpSync(good, state, { recursive: true });
  await damage(state);
  const before = contents(state);
  const { serving, said, child } = launch([...words, "--state", state]);
  expect(await serving).toBeUndefined();
  expect(child.exitCode).toBe(1);
  const lines = said().trim().split("\n");
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(says);
  expect(lines[0]).toContain(state);
  expect(contents(state)).toEqual(before);
  if (!mend) return;
  if (mend === restored) expect(lines[0]).toMatch(wayBack);
  mend(state);
  const again = await started([...words, "--state", state]);
  const { data } = (await again.api.get("/v4/balancers")).body;
  expect(data.map(({ label }: { label: string }) => label)).toEqual(["one", "two", "three"]);
  await again.stop();
});
