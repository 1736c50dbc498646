import { randomUUID } from "node:crypto";
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { cannotStart, reasonOf } from "../kernel/fault.js";
import { sayLast } from "../kernel/last-words.js";
import { errorBody } from "./status.js";

export interface ApiServer {
  /** `http://127.0.0.1:4747` */
  url: string;
  port: number;
  /** From now on `listener` answers. */
  serve(listener: RequestListener): void;
  /** Stops accepting, ends idle connections, gives requests under way a bound, and waits until the port is free. */
  close(): Promise<void>;
}

/** What one client may cost; for tests that must see a bound reached. Real milliseconds. */
export interface ServerLimits {
  /** For a request's head to arrive. */
  headMs: number;
  /** For a whole request to arrive. */
  requestMs: number;
  /** For a client that is sent an answer to take some of what waits for it. */
  readMs: number;
  /** Open connections; further ones are answered 503 and closed. */
  connections: number;
}

export const defaultLimits: ServerLimits = { headMs: 15_000, requestMs: 60_000, readMs: 30_000, connections: 1_000 };

/** How long requests under way may take once the server closes, in ms. */
const graceMs = 2_000;
/** Requests that one connection may have sent ahead of their answers; it ends with these, and what came after them is dropped. */
const mostAhead = 32;

const phrases: Record<number, string> = {
  400: "Bad Request",
  405: "Method Not Allowed",
  408: "Request Timeout",
  417: "Expectation Failed",
  431: "Request Header Fields Too Large",
  503: "Service Unavailable",
};

/** An answer for a request that never reaches the application; the connection ends with it. `more` is header lines. */
const rawAnswer = (status: number, reason: string, more = ""): string => {
  const body = JSON.stringify(errorBody([{ reason }]));
  return `HTTP/1.1 ${status} ${phrases[status]}\r\n${more}X-Request-Id: ${randomUUID()}\r\nRetry-After: 0\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
};

/** What is not HTTP, or too much of it, is answered in JSON as well. */
const onClientError = (error: NodeJS.ErrnoException, socket: Socket): void => {
  if (error.code === "ECONNRESET") return void socket.destroy();
  const status = error.code === "HPE_HEADER_OVERFLOW" ? 431 : error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
  const reason =
    status === 431 ? "The request's head is too large." : status === 408 ? "The request took too long." : "These bytes are not an HTTP/1.1 request.";
  sayLast(socket, rawAnswer(status, reason));
};

/**
 * Answers the requests of a connection one after the other (RFC 9112 section 9.3.2 wants unsafe ones so): Node hands over all that came in one
 * read, and a client that takes nothing would make us hold an answer for each.
 */
const inTurn = (serve: RequestListener): RequestListener => {
  const lines = new WeakMap<Socket, { waiting: Array<() => void>; full: boolean }>();
  return (request, response) => {
    const { socket } = request;
    const line = lines.get(socket) ?? { waiting: [], full: false };
    lines.set(socket, line);
    line.full ||= line.waiting.length > mostAhead;
    if (line.full) return;
    line.waiting.push(() => serve(request, response));
    response.once("close", () => {
      line.waiting.shift();
      if (line.full && line.waiting.length === 0) socket.destroySoon();
      else if (!socket.destroyed) line.waiting[0]?.();
    });
    if (line.waiting.length === 1) line.waiting[0]?.();
  };
};

/** Ends a connection whose client takes nothing of its answer for so long; one that waits for us may wait. */
const dropSilentReader = (response: ServerResponse, readMs: number): void => {
  response.setTimeout(readMs, () => {
    if ((response.socket?.writableLength ?? 0) > 0) response.socket?.destroy();
  });
};

/** Node's own bound closes without a word. */
const boundConnections = (server: Server, most: number): void => {
  const [accept] = server.listeners("connection") as Array<(socket: Socket) => void>;
  let open = 0;
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    if (open >= most) {
      socket.on("error", () => {});
      sayLast(socket, rawAnswer(503, `There are ${most} open connections, as many as there may be. Close some, or try again.`));
      return;
    }
    open += 1;
    socket.once("close", () => {
      open -= 1;
    });
    accept?.call(server, socket);
  });
};

const listen = (server: Server, port: number, host: string): Promise<AddressInfo> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host }, () => {
      server.off("error", reject);
      server.on("error", () => {}); // accepting failed (EMFILE): the next time may work
      resolve(server.address() as AddressInfo);
    });
  });

/**
 * Takes the API's port. `host` and `port` as configured; port 0 picks a free one. Until `serve` is called every request is answered 503:
 * the port is taken before anything else is touched, so that a start that cannot have it changes nothing.
 */
export const openServer = async (host: string, port: number, given: Partial<ServerLimits> = {}): Promise<ApiServer> => {
  const limits = { ...defaultLimits, ...given };
  let serving: RequestListener = (_request, response) => {
    response
      .writeHead(503, { "Content-Type": "application/json", "Retry-After": "1", "X-Request-Id": randomUUID() })
      .end(JSON.stringify(errorBody([{ reason: "Backlot is starting." }])));
  };
  const server = createServer(
    {
      requireHostHeader: false,
      connectionsCheckingInterval: Math.min(1_000, limits.headMs),
      headersTimeout: limits.headMs,
      requestTimeout: limits.requestMs,
    },
    inTurn((request, response) => {
      dropSilentReader(response, limits.readMs);
      serving(request, response);
    }),
  );
  boundConnections(server, limits.connections);
  server.on("clientError", onClientError);
  // Without these two Node closes a CONNECT unanswered, and answers an unknown Expect (RFC 9110 section 10.1.1) without a body.
  server.on("connect", (_request, socket) => {
    // Node hands the socket over without a listener of its own, and forgets it: an error here would end the process, an idle client the stop.
    socket.on("error", () => {});
    sayLast(socket, rawAnswer(405, "Method Not Allowed", "Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\n"));
  });
  server.on("checkExpectation", ({ socket }) => sayLast(socket, rawAnswer(417, "Only 100-continue is understood as an expectation.")));
  const address = await listen(server, port, host).catch((error: NodeJS.ErrnoException) => {
    const who = `${host}:${port}`;
    if (error.code === "EADDRINUSE") {
      throw cannotStart(`The port ${who} is taken by another process; stop that one or choose another with --port (0 picks a free one).`, error);
    }
    if (error.code === "EACCES") throw cannotStart(`The port ${who} needs privileges this user lacks; choose one above 1023 with --port.`, error);
    throw cannotStart(`Cannot listen on ${who}: ${reasonOf(error)}; choose another with --host and --port.`, error);
  });
  let closing: Promise<void> | undefined;
  return {
    url: `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`,
    port: address.port,
    serve: (listener) => {
      serving = listener;
    },
    close: () => {
      closing ??= new Promise((resolve) => {
        const cut = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(cut);
          resolve();
        });
        server.closeIdleConnections();
      });
      return closing;
    },
  };
};
