import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import http, { createServer } from "node:http";
import { connect } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { until } from "../support/until.js";
import { applyOpen, closeLater, closeOpened, helloBackend, listen, node, ok, rawBackend, rawClient, request, spec, startPlane } from "./support.js";

afterEach(closeOpened);

const inFront = async (ports: number[], limits = {}) => {
  const plane = startPlane({ limits });
  return { plane, port: await applyOpen(plane, spec(ports.map((port, index) => node(index + 1, port)))) };
};

/** Says `text` and resolves with everything heard until the balancer closed. */
const untilClosed = async (port: number, text: string): Promise<string> => {
  const client = await rawClient(port);
  client.say(text);
  await until(client.gone, { what: "the connection to be closed" });
  return client.heard.text;
};

describe("what is not forwarded", () => {
  test.each([
    ["two Host fields", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"],
    ["no Host field", "GET / HTTP/1.1\r\n\r\n", "400"],
    ["a Host that is none", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "400"],
    ["HTTP/0.9", "GET /\r\n\r\n", "400"],
    ["a length and chunks at once", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"],
    ["two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "400"],
    ["an unknown coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"],
    ["chunks in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"],
    ["a bare line feed in a chunk size", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n", "400"],
    ["bytes that are not HTTP", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400"],
    ["CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", "501"],
    ["an expectation nobody knows", "GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", "417"],
    ["a head without end", `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(70_000)}\r\n\r\n`, "431"],
  ])("%s", async (_name, text, status) => {
    const backend = await helloBackend("hi");
    const { port } = await inFront([backend.port]);
    const answer = await untilClosed(port, text);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer).toMatch(/\r\nX-Backlot-Reason: [a-z-]+\r\n/);
    expect(answer.toLowerCase()).toContain("\r\nconnection: close\r\n");
    expect(answer.split("\r\n\r\n")[1]).toMatch(/\S/);
    expect(backend.received.join("")).not.toContain("HTTP/1.1\r\n");
  });

  test("a malformed second request is refused after the first got its answer", async () => {
    const backend = await rawBackend((socket) => void setTimeout(() => socket.write(ok("first")), 50));
    const { port } = await inFront([backend.port]);
    const answer = await untilClosed(port, `${request("GET /first")}NONSENSE\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*first\s*HTTP\/1\.1 400 /);
  });

  test("a head that does not arrive in time is 408", async () => {
    const backend = await helloBackend("hi");
    const { port } = await inFront([backend.port], { headMs: 200 });
    expect(await untilClosed(port, "GET / HTTP/1.1\r\nHost:")).toMatch(/^HTTP\/1\.1 408 /);
  });
});

describe("what is passed on", () => {
  test("fields: forwarded-for appended, proto and port set, connection fields dropped, the rest as it came", async () => {
    const backend = await rawBackend((socket) =>
      socket.write(
        "HTTP/1.1 201 Made Here\r\nConnection: X-Private\r\nX-Private: 1\r\nKeep-Alive: timeout=3\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Odd-Case: \xe4\r\nContent-Length: 2\r\n\r\nhi",
        "latin1",
      ),
    );
    const { port } = await inFront([backend.port]);
    const client = await rawClient(port);
    const more = [
      "X-Forwarded-For: 9.9.9.9",
      "X-Forwarded-For: 8.8.8.8",
      "X-Forwarded-Proto: https",
      "X-Forwarded-Port: 1",
      "X-Twice: 1",
      "X-Twice: 2",
    ];
    client.say(request("GET /", [...more, "Connection: X-Hop, Host, keep-alive", "X-Hop: 1", "Proxy-Connection: x", "TE: trailers"]));
    await until(() => client.heard.text.endsWith("hi"));
    const seen = backend.received[0] ?? "";
    expect(seen).toContain("\r\nX-Forwarded-For: 9.9.9.9, 8.8.8.8, 127.0.0.1\r\n");
    expect(seen).toContain("\r\nX-Forwarded-Proto: http\r\n");
    expect(seen).toContain(`\r\nX-Forwarded-Port: ${port}\r\n`);
    expect(seen).toContain("\r\nX-Twice: 1\r\nX-Twice: 2\r\n");
    expect(seen).toContain("\r\nHost: test.example\r\n");
    expect(seen).not.toMatch(/x-hop|proxy-connection|\bTE:/i);
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 201 Made Here\r\n/);
    expect(client.heard.text).toContain("\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Odd-Case: \xe4\r\n");
    expect(client.heard.text).not.toMatch(/X-Private|timeout=3\r/);
  });

  test.each([
    ["HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", /\r\nContent-Length: 1234\r\n/],
    ["HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", /^HTTP\/1\.1 200 OK\r\n/],
    ["GET", "HTTP/1.1 204 No Content\r\n\r\n", /^HTTP\/1\.1 204 /],
    ["GET", "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", /\r\nETag: x\r\n/],
    ["GET", "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n", /^HTTP\/1\.1 500 Broken\r\n/],
  ])("%s answered with %j ends without a body and keeps the connection", async (method, head, expected) => {
    const backend = await rawBackend((socket) => socket.write(head));
    const { port } = await inFront([backend.port]);
    const client = await rawClient(port);
    client.say(request(`${method} /`));
    await until(() => client.heard.text.endsWith("\r\n\r\n"));
    expect(client.heard.text).toMatch(expected);
    client.heard.text = "";
    client.say(request(`${method} /`));
    await until(() => client.heard.text.endsWith("\r\n\r\n"));
    expect(client.heard.text).toMatch(expected);
  });

  test("100-continue comes from the node, and the body only after it", async () => {
    const backend = await rawBackend((socket, said) => {
      if (said.endsWith("\r\n\r\n")) socket.write("HTTP/1.1 100 Continue\r\n\r\n");
      if (said.endsWith("body")) socket.write(ok("taken"));
    });
    const { port } = await inFront([backend.port]);
    const client = await rawClient(port);
    client.say(request("POST /", ["Expect: 100-continue", "Content-Length: 4"]));
    await until(() => client.heard.text === "HTTP/1.1 100 Continue\r\n\r\n");
    expect(backend.received[0]).toMatch(/\r\nExpect: 100-continue\r\n/);
    client.say("body");
    await until(() => client.heard.text.endsWith("taken"));
    expect(client.heard.text.match(/100 Continue/g)).toHaveLength(1);
  });

  test("an early hint comes before the answer, trailers after it", async () => {
    const backend = await rawBackend((socket) => {
      socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n");
    });
    const { port } = await inFront([backend.port]);
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(() => client.heard.text.endsWith("\r\n0\r\nX-Sum: 7\r\n\r\n"));
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a\.css>; rel=preload\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  });

  test("the first event of a stream arrives while the stream is open, its head even before", async () => {
    let speak: () => void = () => undefined;
    const backend = await rawBackend((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
      speak = () => socket.write("data: 1\n\n");
    });
    const { port } = await inFront([backend.port]);
    const client = await rawClient(port);
    client.say(request("GET /events"));
    await until(() => client.heard.text.includes("text/event-stream\r\n"));
    speak();
    await until(() => client.heard.text.includes("data: 1\n\n"));
    expect(client.gone()).toBe(false);
  });

  test("a node that answers before it has read the body and hangs up does not spoil the connection", async () => {
    const backend = await rawBackend((socket, said) => {
      // Says its answer once and reads on: one that resets instead takes its own answer away from whoever is still writing.
      if (said.startsWith("POST") && socket.writable) socket.end("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig");
      else if (said.startsWith("GET")) socket.write(ok("next"));
    });
    const { port } = await inFront([backend.port]);
    const client = await rawClient(port);
    const half = "x".repeat(4_000_000);
    client.say(request("POST /", [`Content-Length: ${2 * half.length}`]));
    client.say(half);
    await until(() => client.heard.text.endsWith("big"));
    client.say(half);
    client.say(request("GET /"));
    await until(() => client.heard.text.endsWith("next"));
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 413 Too Large\r\n/);
  });

  test("big bodies both ways arrive whole, and neither is held in memory when the other side is slow", async () => {
    // Far more than the kernel's buffers of the four connections in a row can take.
    const limit = 512 * 1024 * 1024;
    const block = randomBytes(1024 * 1024);
    const echo = createServer((req, res) => {
      req.pipe(res);
    });
    const { port } = await inFront([await listen(echo)]);
    const upload = http.request({ host: "127.0.0.1", port, method: "POST", agent: false });
    closeLater(() => void upload.destroy());
    const answered = new Promise<http.IncomingMessage>((resolve, reject) => upload.once("response", resolve).once("error", reject));
    const sent = createHash("sha256");
    let written = 0;
    let stopped = false;
    const write = () => {
      while (!stopped && written < limit) {
        sent.update(block);
        written += block.length;
        if (!upload.write(block)) return void upload.once("drain", write);
      }
    };
    write();
    const answer = await answered; // nobody reads it: the pipe fills up and the writing stops
    let last = 0;
    let quiet = 0;
    await until(() => {
      quiet = written === last ? quiet + 1 : 0;
      last = written;
      return quiet === 50;
    });
    expect(written).toBeLessThan(limit);
    stopped = true;
    upload.end();
    const got = createHash("sha256");
    let received = 0;
    for await (const chunk of answer) {
      got.update(chunk as Buffer);
      received += (chunk as Buffer).length;
    }
    expect(received).toBe(written);
    expect(got.digest("hex")).toBe(sent.digest("hex"));
  });
});

describe("nodes that cannot be had", () => {
  test("no node up: 503 with a reason, on a connection that stays", async () => {
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, 9, { up: false }), node(2, 9, { mode: "reject" }), node(3, 9, { mode: "drain" })]));
    const client = await rawClient(port);
    for (let round = 1; round <= 2; round++) {
      client.say(request("GET /"));
      await until(() => client.heard.text.split("X-Backlot-Reason: no-node-up\r\n").length - 1 === round);
    }
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/);
    expect(client.heard.text).toMatch(/\r\nContent-Type: text\/plain/);
  });

  test("a node that refuses is passed over, body included, and reported; when all refuse it is 503", async () => {
    const dead = await rawBackend(() => undefined);
    await new Promise<void>((resolve) => dead.server.close(() => resolve()));
    const backend = await rawBackend((socket, said) => {
      if (said.endsWith("body")) socket.write(ok("taken"));
    });
    const plane = startPlane();
    const hints: Array<[string, number, string]> = [];
    plane.watch((key, id, reason) => hints.push([key, id, reason]));
    const port = await applyOpen(plane, spec([node(1, dead.port), node(2, backend.port)]));
    for (let round = 0; round < 3; round++) {
      const client = await rawClient(port);
      client.say(request("POST /", ["Content-Length: 4"], "body"));
      await until(() => client.heard.text.endsWith("taken"));
    }
    await until(() => hints.length > 0);
    expect(hints[0]).toEqual(["config:1", 1, "refused the connection"]);
    await applyOpen(plane, spec([node(1, dead.port)]));
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(() => client.heard.text.includes("refused the connection"));
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 503 [\s\S]*X-Backlot-Reason: no-node-reached\r\n/);
  });

  test("a node that never accepts is passed over", async () => {
    // A stopped process with a full backlog: the kernel answers no further connection.
    const script = "const s=require('net').createServer();s.listen({port:0,host:'127.0.0.1',backlog:1},()=>console.log(s.address().port))";
    const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    closeLater(() => void child.kill("SIGKILL"));
    const deaf = Number(await new Promise<string>((resolve) => child.stdout.once("data", (chunk) => resolve(String(chunk)))));
    child.kill("SIGSTOP");
    for (let count = 0; count < 4; count++) {
      const socket = connect(deaf, "127.0.0.1").on("error", () => undefined);
      closeLater(() => void socket.destroy());
    }
    const backend = await helloBackend("hi");
    const plane = startPlane({ limits: { connectMs: 200 } });
    const hints: string[] = [];
    plane.watch((_key, id, reason) => hints.push(`${id} ${reason}`));
    const port = await applyOpen(plane, spec([node(1, deaf), node(2, backend.port)]));
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(() => client.heard.text.endsWith("hi"));
    await until(() => hints.length > 0);
    expect(hints).toEqual(["1 did not accept a connection within 200 ms"]);
  });

  test("a node that says nothing is 504, and reported", async () => {
    const backend = await rawBackend(() => undefined);
    const plane = startPlane({ limits: { answerMs: 200 } });
    const hints: string[] = [];
    plane.watch((_key, _id, reason) => hints.push(reason));
    const port = await applyOpen(plane, spec([node(1, backend.port)]));
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(() => client.heard.text.includes("\r\nX-Backlot-Reason: node-timed-out\r\n"));
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 504 /);
    await until(() => hints.length > 0);
    expect(hints).toEqual(["did not answer within 200 ms"]);
    await until(() => backend.open.size === 0);
  });

  test("5xx answers are hints, except 501 and 505; without passive checks nothing is", async () => {
    const backend = await rawBackend((socket, said) => {
      const status = /GET \/(\d+)(?![\s\S]*GET)/.exec(said)?.[1];
      socket.write(`HTTP/1.1 ${status} X\r\nContent-Length: 0\r\n\r\n`);
    });
    const plane = startPlane();
    const hints: string[] = [];
    plane.watch((_key, _id, reason) => hints.push(reason));
    const nodes = [node(1, backend.port)];
    const port = await applyOpen(plane, spec(nodes, { checkPassive: false }));
    const ask = async (status: number) => {
      const client = await rawClient(port);
      client.say(request(`GET /${status}`));
      await until(() => client.heard.text.startsWith(`HTTP/1.1 ${status} `) && client.heard.text.endsWith("\r\n\r\n"));
    };
    await ask(500);
    await applyOpen(plane, spec(nodes));
    for (const status of [501, 505, 404, 503, 503, 502]) await ask(status);
    await until(() => hints.includes("answered 502"));
    expect(hints).toEqual(["answered 503", "answered 502"]);
  });
});
