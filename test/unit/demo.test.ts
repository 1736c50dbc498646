import { createServer } from "node:net";
import { expect, test } from "vitest";
import { shellWord, tlsCommand } from "#backlot/demo/ending.js";
import { firstAddress, freeRange } from "#backlot/demo/free-ports.js";
import { backEnd, takeTurns } from "#backlot/demo/page.js";
import { waitFor } from "#backlot/demo/stage.js";
import { duration, provenTable, tickLine } from "#backlot/demo/table.js";

test("a page names its instance by one line", () => {
  expect(backEnd("<pre>instance=web-1 id=7 address=192.168.128.2</pre>")).toEqual({ label: "web-1", id: 7, address: "192.168.128.2" });
  expect(backEnd("503 no node is up")).toBeUndefined();
});

test.each([
  [["a", "b", "a", "b"], true],
  [["b", "a", "b"], true],
  [["a", "a", "b", "b"], false],
  [["a", "c", "a"], false],
  [["a"], false],
  [[], false],
])("%j in turn: %s", (labels, expected) => {
  expect(takeTurns(labels, "a", "b")).toBe(expected);
});

test("the table's columns line up and its last row is the sum", () => {
  const lines = provenTable([
    { title: "short", seen: "", tookMs: 7.4 },
    { title: "a longer one", seen: "up 2", tookMs: 1200 },
  ]);
  expect(new Set(lines.map((line) => line.length)).size).toBe(1);
  expect(lines.at(-1)).toMatch(/the whole story +1\.2 s$/);
  expect(tickLine({ title: "t", seen: "up 2", tookMs: 7.4 })).toBe("  ✓ t: up 2 (7 ms)");
  expect(duration(999.4)).toBe("999 ms");
});

test("what a shell would read otherwise is quoted", () => {
  expect(shellWord("/tmp/a-b/c.pem")).toBe("/tmp/a-b/c.pem");
  expect(shellWord("/tmp/it's here")).toBe("'/tmp/it'\\''s here'");
  expect(tlsCommand({ address: "127.0.0.1", port: 8443, hostname: "web.test" }, "/tmp/c.pem")).toBe(
    "curl --cacert /tmp/c.pem --resolve web.test:8443:127.0.0.1 https://web.test:8443/",
  );
});

test("a range whose first address has 80 or 443 taken is passed over", async () => {
  expect(firstAddress("127.0.65.0/24")).toBe("127.0.65.1");
  expect(firstAddress("127.0.0.9/32")).toBe("127.0.0.9");
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(443, "127.0.65.1", resolve);
  });
  try {
    expect(await freeRange(["127.0.65.0/24", "127.0.66.0/24"])).toEqual({ range: "127.0.66.0/24", taken: ["127.0.65.1:443"] });
    expect(await freeRange(["127.0.65.0/24"])).toEqual({ range: undefined, taken: ["127.0.65.1:443"] });
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
});

test("a wait tells what was expected and what was seen last, and ends at once when it is interrupted", async () => {
  const asked = new AbortController();
  const wanted = { expected: "up 2", withinMs: 1, ask: async () => 1, holds: (seen: number) => seen === 2, tell: (seen: number) => `up ${seen}` };
  await expect(waitFor({ signal: asked.signal }, wanted)).rejects.toThrow("expected up 2 within 0.001 s; saw up 1");
  const waiting = waitFor({ signal: asked.signal }, { ...wanted, withinMs: 600_000 });
  asked.abort(new Error("interrupted"));
  await expect(waiting).rejects.toThrow();
});
