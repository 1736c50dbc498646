import { randomUUID } from "node:crypto";
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { cannotStart, reasonOf } from "../kernel/fault.js";
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

/** How long requests under way may take once the server closes, in ms. */
const graceMs = 2_000;

const phrases: Record<number, string> = {
  400: "Bad Request",
  405: "Method Not Allowed",
  408: "Request Timeout",
  417: "Expectation Failed",
  431: "Request Header Fields Too Large",
};

/** An answer for a request that never reaches the application; the connection ends with it. `more` is header lines. */
const rawAnswer = (status: number, reason: string, more = ""): string => {
  const body = JSON.stringify(errorBody([{ reason }]));
  return `HTTP/1.1 ${status} ${phrases[status]}\r\n${more}X-Request-Id: ${randomUUID()}\r\nRetry-After: 0\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
};

/** What is not HTTP, or too much of it, is answered in JSON as well. */
const onClientError = (error: NodeJS.ErrnoException, socket: Socket): void => {
  if (!socket.writable || error.code === "ECONNRESET") return void socket.destroy();
  const status = error.code === "HPE_HEADER_OVERFLOW" ? 431 : error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
  const reason =
    status === 431 ? "The request's head is too large." : status === 408 ? "The request took too long." : "These bytes are not an HTTP/1.1 request.";
  socket.end(rawAnswer(status, reason));
};

const listen = (server: Server, port: number, host: string): Promise<AddressInfo> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host }, () => {
      server.off("error", reject);
      resolve(server.address() as AddressInfo);
    });
  });

/**
 * Takes the API's port. `host` and `port` as configured; port 0 picks a free one. Until `serve` is called every request is answered 503:
 * the port is taken before anything else is touched, so that a start that cannot have it changes nothing.
 */
export const openServer = async (host: string, port: number): Promise<ApiServer> => {
  let serving: RequestListener = (_request, response) => {
    response
      .writeHead(503, { "Content-Type": "application/json", "Retry-After": "1", "X-Request-Id": randomUUID() })
      .end(JSON.stringify(errorBody([{ reason: "Backlot is starting." }])));
  };
  const server = createServer(
    { requireHostHeader: false, connectionsCheckingInterval: 1_000, headersTimeout: 15_000, requestTimeout: 60_000 },
    (request, response) => serving(request, response),
  );
  server.on("clientError", onClientError);
  // Without these two Node closes a CONNECT unanswered, and answers an unknown Expect (RFC 9110 section 10.1.1) without a body.
  server.on("connect", (_request, socket) => {
    // Node hands the socket over without a listener of its own, and forgets it: an error here would end the process, an idle client the stop.
    socket.on("error", () => {});
    socket.end(rawAnswer(405, "Method Not Allowed", "Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\n"), () => socket.destroy());
  });
  server.on(
    "checkExpectation",
    (_request, response: ServerResponse) => void response.socket?.end(rawAnswer(417, "Only 100-continue is understood as an expectation.")),
  );
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
