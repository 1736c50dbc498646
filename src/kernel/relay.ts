import { connect, type OnReadOpts, Socket } from "node:net";

/** Where a relay listens, and the word that opens it (docker/relay/backlot-relay.py). The secret is not to be shown, logged or stored. */
export interface RelayDoor {
  host: string;
  port: number;
  secret: string;
}

/** How an address that cannot be dialled itself is reached: by a relay, or (yet) not, with the reason in a sentence. */
export type Via = RelayDoor | { missing: string };

interface Target {
  host: string;
  port: number;
}

interface SocketChoices {
  noDelay?: boolean;
  allowHalfOpen?: boolean;
  /** Bytes are read into this buffer and told to its callback, as `net.connect` does; then there is no `data`. */
  onread?: OnReadOpts;
}

/** The code of every failure that is the relay's and not the node's. */
export const relayFailure = "ERELAY";

const fault = (code: string, message: string, target: Target): NodeJS.ErrnoException =>
  Object.assign(new Error(message), { code, syscall: "connect", address: target.host, port: target.port });

/** By the byte the relay answers. */
const refusals: Readonly<Record<string, readonly [code: string, message: string]>> = {
  R: ["ECONNREFUSED", "the node refused the connection"],
  U: ["EHOSTUNREACH", "the node is not reachable"],
  T: ["ETIMEDOUT", "the node did not answer"],
  D: [relayFailure, "the relay does not carry to this address"],
  F: [relayFailure, "the relay could not connect"],
};

/**
 * A TCP connection through a relay that looks like one to the node itself: `connect` comes when the node has accepted, and a node that
 * refuses or is silent gives the error a direct connection would give. What is written meanwhile is sent behind the greeting.
 */
export class RelayedSocket extends Socket {
  #greeting = true;
  readonly #target: Target;
  /** What Node itself waits for `connect` with: to send the greeting. Everybody else hears of it when the node has accepted. */
  #sending: Array<(this: Socket) => void> = [];

  constructor(verb: "tcp" | "udp" | "hold", target: Target, via: Via, choices: SocketChoices = {}) {
    super({ allowHalfOpen: choices.allowHalfOpen ?? false });
    this.#target = target;
    if ("missing" in via) {
      (this as { connecting: boolean }).connecting = true; // what is written now waits, and goes down with it
      process.nextTick(() => this.destroy(fault(relayFailure, via.missing, target)));
      return;
    }
    if (choices.noDelay) this.setNoDelay(true);
    if (choices.onread) this.#readInto(choices.onread);
    this.connect({ host: via.host, port: via.port });
    this.write(`${via.secret} ${verb} ${target.host} ${target.port}\n`);
    this.#sending = this.listeners("connect") as Array<(this: Socket) => void>;
    this.removeAllListeners("connect");
  }

  /** What the relay answers comes first, so Node cannot read into the buffer itself. */
  #readInto({ buffer, callback }: OnReadOpts): void {
    this.on("data", (chunk: Buffer) => {
      for (let at = 0; at < chunk.length; ) {
        const into = typeof buffer === "function" ? buffer() : buffer;
        const size = Math.min(into.length, chunk.length - at);
        into.set(chunk.subarray(at, at + size));
        at += size;
        if (callback(size, into) === false) this.pause();
      }
    });
  }

  override emit(event: string | symbol, ...words: unknown[]): boolean {
    if (this.#greeting && (event === "connect" || event === "ready")) {
      // The relay accepted; whether the node does is read next, even when the one who waits for that has paused us.
      if (event === "connect") {
        for (const send of this.#sending) send.call(this);
        this._read(0);
      }
      return true;
    }
    return super.emit(event, ...words);
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    if (!this.#greeting) return super.push(chunk, encoding);
    if (chunk === null) {
      this.destroy(fault(relayFailure, "the relay closed the connection", this.#target));
      return false;
    }
    const answer = String.fromCharCode(chunk[0] ?? 0);
    if (answer !== "+") {
      const [code, message] = refusals[answer] ?? [relayFailure, "what listens at the relay's address is no relay"];
      this.destroy(fault(code, message, this.#target));
      return false;
    }
    this.#greeting = false;
    super.emit("connect");
    super.emit("ready");
    return chunk.length > 1 && !this.destroyed ? super.push(chunk.subarray(1)) : true;
  }

  override _destroy(error: (NodeJS.ErrnoException & { address?: string; port?: number }) | null, callback: (error?: Error | null) => void): void {
    // Whatever the system says of the way to the relay is no word about the node.
    const ours =
      !this.#greeting || error === null || error.syscall === undefined || (error.address === this.#target.host && error.port === this.#target.port);
    super._destroy(ours ? error : fault(relayFailure, `the relay cannot be reached (${error.code ?? error.message})`, this.#target), callback);
  }
}

/** Connects to a node: itself, or through a relay where the endpoint says so. */
export const dialEndpoint = (endpoint: Target & { via?: Via | undefined }, choices: SocketChoices = {}): Socket =>
  endpoint.via === undefined
    ? connect({ host: endpoint.host, port: endpoint.port, ...choices })
    : new RelayedSocket("tcp", endpoint, endpoint.via, choices);
