import type http from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type httpProxy from "http-proxy";
import { plainAddress } from "../kernel/addresses.js";
import { answerRefusal, noNodeLeft } from "./answer.js";
import { type Agents, type Attempt, isIll, type Outcome } from "./attempt.js";
import { createForwarder } from "./forwarding.js";
import { type Arrival, hasBody, isReplayable } from "./headers.js";
import type { Limits } from "./limits.js";
import { NodeAgent } from "./node-agent.js";
import type { NodeSpec } from "./plane.js";
import { proxyHeader, type Route } from "./proxy-protocol.js";
import type { Roster } from "./roster.js";
import { joinStreams, reach, sideOf } from "./tunnel.js";
import { detachedAnswer } from "./upgrade.js";

/** What a listener does with one request, upgrade or connection: finds a node, asks the next one when it cannot be reached, answers itself. */
export interface Service {
  /** What a tunnel's node is told of the client. */
  proxyProtocol: "none" | "v1" | "v2";
  request(req: http.IncomingMessage, res: http.ServerResponse): void;
  /** Returns the response that stands for the connection until it is handed over. */
  upgrade(req: http.IncomingMessage, socket: Duplex, head: Buffer): http.ServerResponse;
  tunnel(client: Socket): void;
  close(): void;
}

interface ServiceOptions {
  roster: Roster;
  limits: Limits;
  hint(node: number, reason: string): void;
}

const routeOf = (client: Socket): Route => ({
  sourceAddress: plainAddress(client.remoteAddress),
  sourcePort: client.remotePort ?? 0,
  destinationAddress: plainAddress(client.localAddress),
  destinationPort: client.localPort ?? 0,
});

const arrivalOf = (req: http.IncomingMessage): Arrival => ({
  client: plainAddress(req.socket.remoteAddress),
  proto: "encrypted" in req.socket ? "https" : "http",
  port: req.socket.localPort ?? 0,
});

export const createService = ({ roster, limits, hint }: ServiceOptions): Service => {
  const proxy: httpProxy = createForwarder();
  const agents: Agents = {
    kept: new NodeAgent({ keepAlive: true, maxFreeSockets: 256 }),
    fresh: new NodeAgent({ keepAlive: false }),
  };

  const forward = (
    req: http.IncomingMessage,
    res: http.ServerResponse,
    pass: (options: { target: { host: string; port: number }; attempt: Attempt }) => void,
  ): void => {
    const arrival = arrivalOf(req);
    const caller = { address: arrival.client, cookie: req.headers.cookie };
    const tried = new Set<number>();
    const reasons: string[] = [];
    let replayed = false;
    const startedMs = performance.now();
    // What is left of a body that nobody reads would be taken for the next request.
    const unread = () => hasBody(req.rawHeaders) && !req.complete;

    const conclude = (node: NodeSpec, outcome: Outcome): void => {
      const replays = outcome.kind === "broken" && outcome.replayable === true && !replayed;
      if (outcome.kind === "unreached" || replays) {
        replayed ||= replays;
        hint(node.id, outcome.reason);
        tried.add(node.id);
        reasons.push(`${node.label} (${node.address}) ${outcome.reason}`);
        attempt();
      } else if (outcome.kind === "broken") {
        hint(node.id, outcome.reason);
        const sentence = `${node.label} (${node.address}) ${outcome.reason}.`;
        answerRefusal(res, { status: outcome.status, token: outcome.token, sentence }, unread());
      } else if (outcome.kind === "cut") hint(node.id, outcome.reason);
    };

    const attempt = (): void => {
      if (res.destroyed) return;
      const choice = roster.choose(caller, tried, performance.now());
      if (!choice) {
        answerRefusal(res, noNodeLeft(reasons, replayed), unread());
        return;
      }
      const { node } = choice;
      const meter = roster.enter(node.id);
      pass({
        target: node.endpoint,
        attempt: {
          node,
          meter,
          arrival,
          setCookie: choice.setCookie,
          agents,
          limits,
          answered: (status) => {
            meter.took(performance.now() - startedMs);
            if (!isIll(status)) return;
            meter.errors++;
            hint(node.id, `answered ${status}`);
          },
          settle: (outcome) => {
            roster.leave(node.id);
            if (outcome.kind !== "done" && outcome.kind !== "gone") meter.errors++;
            conclude(node, outcome);
          },
        },
      });
    };
    attempt();
  };

  const tunnel = async (client: Socket): Promise<void> => {
    const caller = { address: plainAddress(client.remoteAddress), cookie: undefined };
    const tried = new Set<number>();
    for (;;) {
      const choice = client.destroyed ? undefined : roster.choose(caller, tried, performance.now());
      if (!choice) {
        client.destroy();
        return;
      }
      const { node } = choice;
      const meter = roster.enter(node.id);
      const reached = await reach(node.endpoint, limits.connectMs);
      if (typeof reached !== "string") {
        meter.requests++;
        const { stream } = reached;
        if (!client.destroyed) {
          if (service.proxyProtocol !== "none") stream.write(proxyHeader(service.proxyProtocol, routeOf(client)));
          return joinStreams(sideOf(client), reached, limits.halfTunnelMs, () => {
            meter.bytesIn += stream.bytesWritten;
            meter.bytesOut += stream.bytesRead;
            roster.leave(node.id);
          });
        }
        stream.destroy();
        roster.leave(node.id);
        return;
      }
      roster.leave(node.id);
      meter.errors++;
      hint(node.id, reached);
      tried.add(node.id);
    }
  };

  const service: Service = {
    proxyProtocol: "none",
    request: (req, res) => forward(req, res, (options) => proxy.web(req, res, options)),
    upgrade: (req, socket, head) => {
      const res = detachedAnswer(req, socket);
      forward(req, res, (options) => proxy.ws(req, socket, head, { ...options, answer: res } as httpProxy.ServerOptions));
      return res;
    },
    tunnel: (client) => void tunnel(client),
    close: () => {
      agents.kept.destroy();
      agents.fresh.destroy();
    },
  };
  return service;
};

/** An upgrade we pass on: a tunnel asked for by a request without a body. Others are answered as if `Upgrade` were not there (RFC 9110 section 7.8). */
export const isTunnelRequest = (req: http.IncomingMessage): boolean =>
  req.method === "GET" &&
  isReplayable({ method: "GET", target: req.url ?? "/", raw: req.rawHeaders }) &&
  !/^\s*h2c\b/i.test(req.headers.upgrade ?? "");
