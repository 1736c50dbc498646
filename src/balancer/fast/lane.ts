import type { Socket } from "node:net";
import { plainAddress } from "../../kernel/addresses.js";
import type { Beat } from "../beat.js";
import type { Limits } from "../limits.js";
import type { Roster } from "../roster.js";
import { NodePool } from "./node-connection.js";
import { Session } from "./session.js";

interface LaneOptions {
  roster: Roster;
  limits: Limits;
  beat: Beat;
  keepAlive: boolean;
  hint(node: number, reason: string): void;
  counted(): void;
  /** Takes a connection whose next bytes are not plain; `leaving`: it is to close after the next answer. */
  handOver(client: Socket, leaving: boolean): void;
}

/**
 * HTTP for the requests that are plain by a strict reading of RFC 9110 and 9112: heads are read and rewritten here, bodies are followed and
 * passed as bytes. Whatever it is not certain of it hands over. It never listens itself.
 */
export class Lane {
  readonly roster: Roster;
  readonly limits: Limits;
  readonly keepAlive: boolean;
  readonly pool = new NodePool();
  readonly hint: LaneOptions["hint"];
  readonly counted: LaneOptions["counted"];
  readonly handOver: LaneOptions["handOver"];
  readonly #sessions = new Set<Session>();
  readonly #stopBeat: () => void;
  #dateSecond = 0;
  #dateField = "";
  #nodes: Roster["nodes"] = [];
  #retired = false;

  constructor(options: LaneOptions) {
    this.roster = options.roster;
    this.limits = options.limits;
    this.keepAlive = options.keepAlive;
    this.hint = options.hint;
    this.counted = options.counted;
    this.handOver = options.handOver;
    this.#stopBeat = options.beat.add((nowMs) => {
      if (this.#nodes !== this.roster.nodes) this.pool.keepOnly(this.roster.nodes.map((node) => node.endpoint));
      this.#nodes = this.roster.nodes;
      this.pool.sweep(nowMs);
      for (const session of this.#sessions) session.beat(nowMs);
    });
  }

  serve(client: Socket): void {
    if (this.#retired) {
      client.destroy();
      return;
    }
    this.#sessions.add(new Session(this, client, plainAddress(client.remoteAddress)));
  }

  leave(session: Session): void {
    this.#sessions.delete(session);
  }

  /** For answers without one, RFC 9110 section 6.6.1. */
  dateField(): string {
    const second = Math.floor(Date.now() / 1_000);
    if (second !== this.#dateSecond) {
      this.#dateSecond = second;
      this.#dateField = `Date: ${new Date(second * 1_000).toUTCString()}\r\n`;
    }
    return this.#dateField;
  }

  /** Ends idle connections now and busy ones after their current answer. */
  retire(): void {
    for (const session of this.#sessions) session.retire();
  }

  /** Takes no connection any more. */
  close(): void {
    this.#retired = true;
    this.#stopBeat();
    this.pool.close();
  }
}
