import http from "node:http";
import type { Duplex } from "node:stream";
import { dialEndpoint, type Via } from "../kernel/relay.js";

declare module "http" {
  interface ClientRequestArgs {
    /** How the node is reached; absent: it is dialled itself. */
    via?: Via | undefined;
  }
}

/** Node's own agent, that goes through a relay where the request says so. */
export class NodeAgent extends http.Agent {
  override createConnection(options: http.ClientRequestArgs, callback?: (error: Error | null, stream: Duplex) => void): Duplex | null | undefined {
    const { via, host, port } = options;
    if (via === undefined) return super.createConnection(options, callback);
    return dialEndpoint({ host: String(host), port: Number(port), via }, { noDelay: true });
  }
}
