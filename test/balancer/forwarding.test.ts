import { readFileSync } from "node:fs";
import { connect as connectTls } from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import { until } from "../support/until.js";
import { applyOpen, closeLater, closeOpened, helloBackend, makePair, node, ok, rawBackend, rawClient, request, spec, startPlane } from "./support.js";

afterEach(closeOpened);

/** A plane in front of the given back ends; resolves with its port. */
const inFront = async (...ports: number[]) => {
  const plane = startPlane();
  const port = await applyOpen(plane, spec(ports.map((at, index) => node(index + 1, at))));
  return { plane, port };
};

describe("the repaired http-proxy", () => {
  test.each(["DELETE", "OPTIONS"])("a chunked %s carries its body as a body, not as a second request (CVE-2026-29057)", async (method) => {
    const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    const backend = await rawBackend((socket, said) => {
      if (said.includes("\r\n0\r\n\r\n")) socket.write(ok("one"));
    });
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(request(`${method} /a`, ["Transfer-Encoding: chunked"], `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`));
    await until(() => client.heard.text.endsWith("one"));
    const seen = backend.received.join("");
    expect(seen.toLowerCase()).toContain("transfer-encoding: chunked");
    expect(seen.toLowerCase()).not.toContain("content-length");
    expect(seen).toContain(`${smuggled.length.toString(16)}\r\n${smuggled}`);
    expect(backend.accepted()).toBe(1);
  });

  test("a malformed chunk from a node kills nothing, and the client sees that the answer is cut", async () => {
    const backend = await rawBackend((socket, said) => {
      if (said.includes("/bad")) socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n");
      else socket.write(ok("fine"));
    });
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(request("GET /bad"));
    await until(client.gone);
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(client.heard.text).not.toContain("0\r\n\r\n");
    const next = await rawClient(port);
    next.say(request("GET /good"));
    await until(() => next.heard.text.endsWith("fine"));
  });

  test("a malformed head from a node is 502", async () => {
    const backend = await rawBackend((socket) => socket.end("this is not HTTP\r\n\r\n"));
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(() => client.heard.text.includes("502 Bad Gateway"));
    expect(client.heard.text).toMatch(/X-Backlot-Reason: node-malformed\r\n/);
  });

  test.each([
    ["with a length", "Content-Length: 100\r\n", "abc"],
    ["in chunks", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n"],
  ])("a node that ends early in an answer %s does not leave the client hanging", async (_name, framing, part) => {
    const backend = await rawBackend((socket) => socket.end(`HTTP/1.1 200 OK\r\n${framing}\r\n${part}`));
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(client.gone);
    expect(client.heard.text).toContain("abc");
    expect(client.heard.text).not.toContain("\r\n0\r\n\r\n");
  });

  test("an HTTP/1.0 client, for whom the end of the connection is the end of the body, sees a reset", async () => {
    const backend = await rawBackend((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
      setTimeout(() => socket.end(), 50);
    });
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say("GET / HTTP/1.0\r\n\r\n");
    await until(client.gone);
    expect(client.heard.reset).toBe(true);
  });

  test("a node that ends before any answer is 502", async () => {
    const backend = await rawBackend((socket) => socket.destroy());
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(request("POST /", ["Content-Length: 2"], "hi"));
    await until(() => client.heard.text.includes("502 Bad Gateway"));
    expect(client.heard.text).toMatch(/X-Backlot-Reason: node-broke-off\r\n/);
    expect(backend.accepted()).toBe(1);
  });

  test.each([
    ["before the answer", ""],
    ["in the middle of the answer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"],
  ])("when the client leaves %s, the connection to the node is freed", async (_name, start) => {
    const backend = await rawBackend((socket) => {
      if (start !== "") socket.write(start);
    });
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(request("GET /slow"));
    await until(() => backend.open.size === 1);
    if (start !== "") await until(() => client.heard.text.includes("abc"));
    client.socket.resetAndDestroy();
    await until(() => backend.open.size === 0);
  });

  test("a client that closed cleanly while it waited is found out, one that only half-closed gets its answer", async () => {
    const waiting = new Map<string, () => void>();
    const backend = await rawBackend((socket, said) => {
      waiting.set(said.includes("/left") ? "left" : "half", () => socket.write(ok("late")));
    });
    const plane = startPlane({ limits: { halfClosedMs: 50 } });
    const port = await applyOpen(plane, spec([node(1, backend.port)]));
    const half = await rawClient(port);
    half.socket.end(request("GET /half"), "latin1");
    await until(() => waiting.has("half"));
    const left = await rawClient(port);
    left.say(request("GET /left"));
    await until(() => waiting.has("left"));
    expect(backend.open.size).toBe(2);
    left.socket.destroy();
    await until(() => backend.open.size === 1, { what: "the node's connection freed" });
    waiting.get("half")?.();
    await until(() => half.heard.text.endsWith("late"));
  });

  describe.each([
    ["the fast lane", true],
    ["the careful lane", false],
  ])("a client that half-closed, in %s", (_lane, fastLane) => {
    /** Two half-closed clients: one has the beginning of an answer, the other waits for one and hears every turn in which it is looked at. */
    const halfClosed = async (rest: string) => {
      const answering: Array<() => void> = [];
      const backend = await rawBackend((socket, said) => {
        if (said.includes("/waits")) return;
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${3 + rest.length}\r\n\r\nabc`);
        answering.push(() => socket.write(rest));
      });
      const plane = startPlane({ fastLane, limits: { halfClosedMs: 20 } });
      const port = await applyOpen(plane, spec([node(1, backend.port)]));
      const reader = await rawClient(port);
      reader.socket.end(request("GET /"), "latin1");
      await until(() => reader.heard.text.endsWith("abc"));
      const waiter = await rawClient(port);
      waiter.socket.end(request("GET /waits"), "latin1");
      const turns = async (count: number): Promise<void> => {
        const asked = () => waiter.heard.text.split("100 Continue").length;
        const before = asked();
        await until(() => asked() >= before + count);
      };
      return { backend, port, reader, turns, answer: () => answering[0]?.() };
    };

    test("reads on after a long silence of the node", async () => {
      const { reader, turns, answer } = await halfClosed("def");
      await turns(15);
      answer();
      await until(() => reader.gone() && reader.heard.text.endsWith("abcdef"));
    });

    test("takes its time to read", async () => {
      const rest = "x".repeat(16_000_000);
      const { backend, reader, turns, answer } = await halfClosed(rest);
      reader.socket.pause();
      answer();
      await until(() => [...backend.open].some((socket) => socket.writableLength > 0));
      await turns(15);
      reader.socket.resume();
      await until(() => reader.gone());
      expect(reader.heard.text.length - reader.heard.text.indexOf("abc")).toBe(3 + rest.length);
    });

    test("and is reset is let go, though its node is silent", async () => {
      const { backend, reader } = await halfClosed("def");
      await until(() => backend.open.size === 2);
      reader.socket.resetAndDestroy();
      await until(() => backend.open.size === 1, { what: "the node's connection freed" });
    });

    test("is asked by the kernel whether it lives, since one that left looks alike", async () => {
      const { port, reader } = await halfClosed("def");
      // proc(5): 08 is CLOSE_WAIT; a timer of kind 02 is that of keep-alive.
      const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
      const remote = `:${Number(reader.socket.localPort).toString(16).toUpperCase().padStart(4, "0")}`;
      const isProbed = ([, from, to, state, , timer]: string[]) =>
        from?.endsWith(local) && to?.endsWith(remote) && state === "08" && timer?.startsWith("02:");
      const rows = () =>
        readFileSync("/proc/net/tcp", "utf8")
          .split("\n")
          .map((line) => line.trim().split(/\s+/));
      await until(() => rows().some(isProbed), { what: "a keep-alive timer on the half-closed connection" });
    });

    test("over TLS is let go after ten quiet turns in the middle of its answer; one that waits for its answer is not", async () => {
      const answering: Array<() => void> = [];
      const backend = await rawBackend((socket, said) => {
        if (said.includes("/waits")) answering.push(() => socket.write(ok("late")));
        else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
      });
      const plane = startPlane({ fastLane, limits: { halfClosedMs: 20 } });
      const tls = { ...makePair("half.test"), cipherSuite: "recommended" as const };
      const port = await applyOpen(plane, spec([node(1, backend.port)], { protocol: "https", tls }));
      const halfClosing = (path: string) => {
        const heard = { text: "", gone: false };
        const socket = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false });
        socket.allowHalfOpen = true;
        closeLater(() => void socket.destroy());
        socket.on("error", () => undefined).on("data", (chunk) => (heard.text += chunk.toString("latin1")));
        for (const end of ["end", "close"]) socket.once(end, () => (heard.gone = true));
        socket.end(request(`GET ${path}`), "latin1");
        return heard;
      };
      const waiter = halfClosing("/waits");
      await until(() => answering.length === 1);
      const reader = halfClosing("/");
      await until(() => reader.text.endsWith("abc"));
      await until(() => reader.gone && backend.open.size === 1, { what: "the end of the one, with its node's connection" });
      await until(() => waiter.text.split("100 Continue").length > 15, { what: "fifteen turns of the other" });
      expect(waiter.gone).toBe(false);
      answering[0]?.();
      await until(() => waiter.gone && waiter.text.endsWith("late"));
    });
  });

  test.each(["//a//b?c=//d", "/a/../b/./c%2F", "*", "http://other.example//x//y"])("the target %s arrives as it was sent", async (target) => {
    const backend = await helloBackend("hi");
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(request(`OPTIONS ${target}`));
    await until(() => client.heard.text.endsWith("hi"));
    expect(backend.received[0]?.split("\r\n")[0]).toBe(`OPTIONS ${target} HTTP/1.1`);
    expect(/^host: (.*)$/im.exec(backend.received[0] ?? "")?.[1]?.trim()).toBe(target.startsWith("http") ? "other.example" : "test.example");
  });

  test("a kept connection that died is not the client's problem: GET is sent again, POST is sent once", async () => {
    // Every connection answers once and is dropped at the second request, as a node does whose idle limit just passed.
    const backend = await rawBackend((socket, said) => {
      if (said.split("\r\n\r\n").length - 1 > 1 && !said.includes("POST /first")) socket.destroy();
      else socket.write(ok("ok"));
    });
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    for (let round = 1; round <= 4; round++) {
      client.say(request("GET /again"));
      await until(() => client.heard.text.split("200 OK").length - 1 === round);
    }
    expect(client.heard.text).not.toContain("502");
    expect(backend.received.some((said) => said.split("GET /again").length - 1 === 2)).toBe(true);

    const before = backend.received.join("").split("POST /once").length;
    client.say(request("POST /once", ["Content-Length: 0"]));
    await until(() => client.heard.text.split("200 OK").length - 1 === 5);
    expect(backend.received.join("").split("POST /once").length - before).toBe(1);
  });

  test("a refused upgrade is framed like any other answer", async () => {
    const backend = await rawBackend((socket) => socket.write("HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"));
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(
      request("GET /ws", ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]),
    );
    await until(client.gone);
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/);
    expect(client.heard.text).toMatch(/\r\n\r\n2\r\nno\r\n0\r\n\r\n$/);
    expect(client.heard.text.toLowerCase().match(/transfer-encoding/g)).toHaveLength(1);
    expect(client.heard.text.toLowerCase()).toContain("connection: close");
  });

  test("an accepted upgrade passes early bytes of both sides", async () => {
    const backend = await rawBackend((socket, said) => {
      if (said.endsWith("\r\n\r\n") || said.endsWith("early")) {
        if (!said.includes("sent"))
          socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-More: 1\r\n\r\nnode-first");
      }
      if (said.endsWith("later")) socket.end("bye");
    });
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(`${request("GET /tunnel", ["Connection: Upgrade", "Upgrade: echo"])}early`);
    await until(() => client.heard.text.endsWith("node-first"));
    await until(() => backend.received[0]?.endsWith("early"));
    client.say("later");
    await until(() => client.heard.text.endsWith("bye"));
    await until(() => client.heard.ended);
    client.say("after the node's end");
    await until(() => backend.received[0]?.endsWith("after the node's end"), { what: "the client's side still open" });
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 101 Switching Protocols\r\n/);
    expect(client.heard.text).toContain("X-More: 1\r\n");
    expect(client.heard.text).toContain("Upgrade: echo\r\n");
  });

  test("an upgrade we do not pass on (h2c, or one with a body) is answered as a plain request on a kept connection", async () => {
    const backend = await rawBackend((socket, said) => {
      if (said.endsWith("hello") || said.endsWith("\r\n\r\n")) socket.write(ok("plain"));
    });
    const { port } = await inFront(backend.port);
    const client = await rawClient(port);
    client.say(
      request(
        "POST /x",
        ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", "Content-Length: 5"],
        "hello",
      ),
    );
    await until(() => client.heard.text.endsWith("plain"));
    client.say(request("GET /y", ["Connection: Upgrade", "Upgrade: h2c"]));
    await until(() => client.heard.text.split("plain").length === 3);
    expect(backend.received.join("").toLowerCase()).not.toMatch(/upgrade|http2-settings/);
    expect(backend.received.join("")).toContain("hello");
  });
});
