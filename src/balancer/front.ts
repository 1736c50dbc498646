import http from "node:http";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { sayLast } from "../kernel/last-words.js";
import { answerRefusal, parserRefusal, rawRefusal } from "./answer.js";
import type { Beat } from "./beat.js";
import { giveUp } from "./cut.js";
import { type Refusal, requestRefusal } from "./headers.js";
import type { Limits } from "./limits.js";
import { isTunnelRequest, type Service } from "./service.js";

/** One HTTP client connection and what is going on on it. */
interface Seat {
  stream: Duplex;
  answers: Set<http.ServerResponse>;
  /** The request whose head was read last. */
  latest: http.IncomingMessage | undefined;
  /** Handed over to an upgraded protocol. */
  tunnel: boolean;
  leaving: boolean;
  /** How many bytes had come when a body was last seen moving, and when that was. */
  bodyBytes: number;
  bodySinceMs: number;
  /** The first answer in line, when we have said all of it and the client has not taken it; and since when that is known. */
  untaken: http.ServerResponse | undefined;
  untakenSinceMs: number;
}

/** HTTP towards clients, over connections it is handed. It never listens itself. */
export interface Front {
  /** `leaving`: it is to close after the next answer. */
  serve(stream: Duplex, leaving: boolean): void;
  /** Ends idle connections now and busy ones after their current answer; upgraded ones stay. */
  retire(): void;
  close(): void;
}

interface FrontOptions {
  service: Service;
  limits: Limits;
  keepAlive: boolean;
  beat: Beat;
  counted(): void;
}

/** A client that has this many requests waiting is not read from. */
const MAX_PIPELINE = 32;
/** One read may bring thousands; a connection that has this many waiting ends with their answers, and what came after them is dropped. */
const MAX_AHEAD = 512;

/** The request as it came, without its wish to upgrade, as bytes (latin1). */
const withoutUpgrade = (req: http.IncomingMessage): string => {
  let text = `${req.method} ${req.url} HTTP/${req.httpVersion}\r\n`;
  for (let index = 0; index < req.rawHeaders.length; index += 2) {
    const name = req.rawHeaders[index] ?? "";
    const lower = name.toLowerCase();
    let value = req.rawHeaders[index + 1] ?? "";
    if (lower === "upgrade" || lower === "http2-settings") continue;
    if (lower === "connection") value = value.replace(/\b(?:upgrade|http2-settings)\b\s*,?\s*/gi, "");
    text += `${name}: ${value}\r\n`;
  }
  return `${text}\r\n`;
};

const refusalOf = (req: http.IncomingMessage): Refusal | undefined =>
  requestRefusal({ method: req.method ?? "", target: req.url ?? "", raw: req.rawHeaders }, req.httpVersion);

export const createFront = ({ service, limits, keepAlive, beat, counted }: FrontOptions): Front => {
  const seats = new Map<Duplex, Seat>();
  let retired = false;

  const server = http.createServer({
    requireHostHeader: false, // checked by us, so that the answer has a body
    headersTimeout: limits.headMs,
    requestTimeout: 0, // an upload may last
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: 1_000,
    maxHeaderSize: 65_536,
  });
  server.maxHeadersCount = 0; // bounded in bytes; the default silently forgets fields
  Object.assign(server, { httpAllowHalfOpen: true }); // documented by Node, unknown to its types
  // Node starts the watch over `headersTimeout` when a server listens; this one is handed its connections.
  server.emit("listening");

  const enter = (req: http.IncomingMessage, res: http.ServerResponse): Seat | undefined => {
    const seat = seats.get(req.socket);
    if (!seat) return undefined;
    counted();
    seat.latest = req;
    seat.answers.add(res);
    if (seat.leaving || !keepAlive) res.shouldKeepAlive = false;
    res.once("close", () => {
      seat.answers.delete(res);
      if (seat.leaving && seat.answers.size === 0 && !seat.tunnel) seat.stream.end(() => seat.stream.destroy());
    });
    return seat;
  };

  const refused = (req: http.IncomingMessage, res: http.ServerResponse): boolean => {
    const refusal = refusalOf(req);
    if (refusal) answerRefusal(res, refusal, true);
    return refusal !== undefined;
  };

  const onRequest = (req: http.IncomingMessage, res: http.ServerResponse) => {
    const known = seats.get(req.socket);
    if (known && known.answers.size >= MAX_AHEAD) known.leaving = true;
    if (known?.leaving && known.answers.size > 0) return;
    const seat = enter(req, res);
    if (!seat) return res.destroy();
    const serve = () => {
      if (!res.destroyed && !res.headersSent && !refused(req, res)) service.request(req, res);
    };
    const before = [...seat.answers].at(-2);
    if (!before) return serve();
    // Node hands over a whole pipeline at once; a node is to get one request after the other (RFC 9112 section 9.3.2).
    before.once("close", () => {
      if (seat.answers.size <= MAX_PIPELINE / 2 && req.socket.isPaused()) req.socket.resume();
      serve();
    });
    // Node reads on when it has a request whole, which is right after this.
    setImmediate(() => {
      if (seat.answers.size >= MAX_PIPELINE && !req.socket.destroyed) req.socket.pause();
    });
  };
  server.on("request", onRequest);
  // The node answers `Expect`, not we: the request goes the usual way with the field in it.
  server.on("checkContinue", onRequest);
  server.on("checkExpectation", (req, res) => {
    if (enter(req, res)) answerRefusal(res, { status: 417, token: "expectation", sentence: "Only 100-continue can be expected." }, true);
  });
  server.on("connect", (_req, socket) => {
    sayLast(socket, rawRefusal({ status: 501, token: "connect", sentence: "This is a balancer; it opens no tunnels." }));
  });
  server.on("upgrade", (req: http.IncomingMessage, socket: Duplex, head: Buffer) => {
    const seat = seats.get(socket);
    // A pipelined upgrade behind an answer that is still on its way: nobody sane does that, and the two cannot share the connection.
    if (!seat || seat.answers.size > 0) return socket.destroy();
    if (!isTunnelRequest(req)) {
      socket.unshift(Buffer.concat([Buffer.from(withoutUpgrade(req), "latin1"), head]));
      server.emit("connection", socket);
      return;
    }
    counted();
    seat.tunnel = true;
    const refusal = refusalOf(req);
    if (refusal) sayLast(socket, rawRefusal(refusal));
    else seat.answers.add(service.upgrade(req, socket, head));
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
    const seat = seats.get(socket);
    const refusal = parserRefusal(error.code);
    if (!seat || !refusal) return socket.destroy();
    const say = () => sayLast(socket, rawRefusal(refusal));
    const last = [...seat.answers].at(-1);
    if (!last) return say();
    // Broken in the body of the request whose head was read last, or in the head after it? Those before it get their answers either way.
    if (seat.latest?.complete) for (const res of seat.answers) res.once("close", () => seat.answers.size === 0 && say());
    else if (last.headersSent) socket.destroy();
    // Its head may be refused as well, and waits for its turn to say so: that comes first.
    else answerRefusal(last, (seat.latest && refusalOf(seat.latest)) ?? refusal, true);
  });

  /** A client that stops in the middle of its body holds a node; one that waits because the node reads slowly does not count. */
  const boundBody = (seat: Seat, nowMs: number): void => {
    const { latest } = seat;
    if (!latest || latest.complete || seat.tunnel) return;
    const bytes = latest.socket.bytesRead;
    if (bytes !== seat.bodyBytes || !latest.readableFlowing) {
      seat.bodyBytes = bytes;
      seat.bodySinceMs = nowMs;
    } else if (nowMs - seat.bodySinceMs >= limits.bodyMs) {
      const refusal: Refusal = { status: 408, token: "too-slow", sentence: "The request body did not arrive in time." };
      if ([...seat.answers].some((res) => res.headersSent)) seat.stream.destroy();
      else for (const res of seat.answers) answerRefusal(res, refusal, true);
    }
  };

  /** A client that takes nothing holds its connection and what it asked for next: no other timer runs while an answer waits for it. */
  const boundReading = (seat: Seat, nowMs: number): void => {
    const [first] = seat.answers;
    const untaken = first?.writableEnded ? first : undefined;
    if (untaken !== seat.untaken) {
      seat.untaken = untaken;
      seat.untakenSinceMs = nowMs;
    } else if (untaken && nowMs - seat.untakenSinceMs >= limits.readMs) giveUp(seat.stream);
  };

  const stopBeat = beat.add((nowMs) => {
    for (const seat of seats.values()) {
      if (seat.answers.size === 0) continue;
      boundBody(seat, nowMs);
      boundReading(seat, nowMs);
    }
  });

  /**
   * A client that sent FIN has left, or only finished talking; on the wire they look alike. A whole-closed one answers any byte with a reset,
   * so it is asked with `100 Continue`, which every HTTP/1.1 client must take at any time (RFC 9110 section 15.2). In the middle of an answer
   * nothing can be said, and the kernel asks: see `Door`.
   */
  const onHalfClose = (seat: Seat) => {
    let quietTurns = 0;
    let quietBytes = -1;
    const timer = setInterval(() => {
      const [res] = seat.answers;
      if (!res || seat.stream.destroyed) return clearInterval(timer);
      if (!res.headersSent && seat.latest?.httpVersion === "1.1") res.writeContinue();
      else if ("encrypted" in seat.stream) {
        // TLS would swallow what the next branch asks for, and few of its clients half-close: ten turns in which nothing was said are as good as gone.
        const { bytesWritten } = seat.stream as TLSSocket;
        quietTurns = bytesWritten === quietBytes && seat.stream.writableLength === 0 ? quietTurns + 1 : 0;
        quietBytes = bytesWritten;
        if (quietTurns >= 10) seat.stream.destroy();
      }
      // Nothing is sent, but a reset that came is told; nobody else looks, since there is nothing to read or to write.
      else if (seat.stream.writableLength === 0) seat.stream.write("");
    }, limits.halfClosedMs);
    seat.stream.once("close", () => clearInterval(timer));
  };

  return {
    serve: (stream, leaving) => {
      if (retired) {
        stream.destroy();
        return;
      }
      const begun = { bodyBytes: 0, bodySinceMs: 0, untaken: undefined, untakenSinceMs: 0 };
      const seat: Seat = { stream, answers: new Set(), latest: undefined, tunnel: false, leaving, ...begun };
      seats.set(stream, seat);
      stream.once("close", () => seats.delete(stream));
      stream.once("end", () => {
        if (!seat.tunnel && seat.answers.size > 0) onHalfClose(seat);
      });
      server.emit("connection", stream);
    },
    retire: () => {
      for (const seat of seats.values()) {
        if (seat.tunnel) continue;
        seat.leaving = true;
        for (const res of seat.answers) if (!res.headersSent) res.shouldKeepAlive = false;
        if (seat.answers.size === 0) seat.stream.end(() => seat.stream.destroy());
      }
    },
    close: () => {
      retired = true;
      stopBeat();
      for (const seat of seats.values()) if (seat.tunnel) seat.stream.destroy();
      server.close(() => undefined);
    },
  };
};
