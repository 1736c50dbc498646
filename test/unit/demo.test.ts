import { once } from "node:events";
import { createServer as createApi } from "node:http";
import { createServer as createWeb } from "node:https";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { connectCloud } from "#backlot/demo/cloud.js";
import { crash } from "#backlot/demo/crash.js";
import { shellWord, tlsCommand } from "#backlot/demo/ending.js";
import { firstAddress, freeRange } from "#backlot/demo/free-ports.js";
import { backEnd, takeTurns } from "#backlot/demo/page.js";
import { waitFor } from "#backlot/demo/stage.js";
import { duration, provenTable, tickLine } from "#backlot/demo/table.js";
import { selfSignedCertificate } from "#backlot/kernel/certificate.js";
import { ownRange } from "../support/loopback.js";

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
  const [busy, free] = [ownRange(), ownRange()];
  expect(firstAddress("127.0.65.0/24")).toBe("127.0.65.1");
  expect(firstAddress("127.0.0.9/32")).toBe("127.0.0.9");
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(443, busy.first, resolve);
  });
  try {
    expect(await freeRange([busy.cidr, free.cidr])).toEqual({ range: free.cidr, taken: [`${busy.first}:443`] });
    expect(await freeRange([busy.cidr])).toEqual({ range: undefined, taken: [`${busy.first}:443`] });
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

/** The crash step before a service that counts a crash rightly and then answers every request with `statusAfter`. */
const crashBefore = async (statusAfter: number): Promise<string> => {
  const pair = await selfSignedCertificate({ commonName: "web.test", country: "DE", altNames: ["web.test"], days: 1 });
  let killed = false;
  let turn = 0;
  const web = createWeb(pair, (_request, response) => {
    turn += 1;
    response.writeHead(killed ? statusAfter : 200).end(`instance=web-${killed ? 2 : (turn % 2) + 1} id=1 address=192.168.128.2`);
  }).listen(0, "127.0.0.1");
  const api = createApi((request, response) => {
    if (request.method === "POST") killed = true;
    response.end(JSON.stringify({ nodes_status: killed ? { up: 1, down: 1 } : { up: 2, down: 0 } }));
  }).listen(0, "127.0.0.1");
  await Promise.all([once(web, "listening"), once(api, "listening")]);
  const port = (server: { address(): unknown }) => (server.address() as AddressInfo).port;
  const instance = (id: number) => ({ id, label: `web-${id}`, status: "running", privateAddress: `192.168.128.${id}` });
  try {
    const step = crash.find(({ title }) => title.startsWith("one instance killed"));
    if (!step) throw new Error("the story has no crash");
    return await step.run({
      cloud: connectCloud(`http://127.0.0.1:${port(api)}`, "a-token-for-the-test"),
      nodePort: 80,
      bootWithinMs: 1_000,
      signal: new AbortController().signal,
      facts: {
        balancer: { id: 1, label: "demo", hostname: "web.test", ipv4: "127.0.0.1" },
        configId: 1,
        instances: [instance(1), instance(2)],
        tlsDoor: { address: "127.0.0.1", port: port(web), hostname: "web.test", trusted: pair.cert },
      },
    });
  } finally {
    web.closeAllConnections();
    api.closeAllConnections();
    await Promise.all([web, api].map((server) => new Promise((resolve) => server.close(resolve))));
  }
};

test("a balancer that counts the crash but drops requests is not taken for a good one", async () => {
  expect(await crashBefore(200)).toMatch(/^up 1, down 1; \d+ requests, 0 failed$/);
  await expect(crashBefore(502)).rejects.toThrow(/expected \d+ of \d+ requests answered; saw \d+ failed, the first with: 502/);
});
