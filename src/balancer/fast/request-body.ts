import { ChunkReader } from "./chunks.js";
import type { PlainRequest } from "./request-head.js";

/** Follows the body of a request to its end. */
export class RequestBody {
  /** Nothing of it is missing. */
  done = true;
  #left = 0;
  #chunks: ChunkReader | undefined;

  begin(body: PlainRequest["body"]) {
    this.#chunks = body === "chunked" ? new ChunkReader(false) : undefined;
    this.#left = body === "chunked" ? 0 : body;
    this.done = body === 0;
  }

  /** Hands what belongs to the body to `pass`. Returns where it ended or, when it goes on, the end of `bytes`; -1 when it is not chunked as it should be. */
  read(bytes: Buffer, pass: (piece: Buffer) => void): number {
    if (this.#chunks) {
      const end = this.#chunks.read(bytes, 0, pass);
      this.done = this.#chunks.done;
      return end;
    }
    const end = Math.min(bytes.length, this.#left);
    this.#left -= end;
    this.done = this.#left === 0;
    pass(end === bytes.length ? bytes : bytes.subarray(0, end));
    return end;
  }
}
