import { createSocket } from "node:dgram";
import { connect } from "node:net";
import { type DecodedPacket, decode, encode, type Packet } from "dns-packet";

export interface NamePlace {
  address: string;
  port: number;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look at whatever members a record has.
type Records = any[];
type Sections = "answers" | "authorities" | "additionals";
export type Reply = Omit<DecodedPacket, Sections | "id"> & Record<Sections, Records> & { rcode: string; id: number };

const withinMs = 5_000;

/** Sends bytes in one datagram; the first answer, or undefined when the server is still answering others but not this one. */
export const sendUdp = ({ address, port }: NamePlace, bytes: Buffer): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const socket = createSocket("udp4");
    const timer = setTimeout(() => end(new Error("no answer over UDP")), withinMs);
    const end = (error?: Error, answer?: Buffer): void => {
      clearTimeout(timer);
      socket.close();
      if (answer) resolve(answer);
      else reject(error);
    };
    socket.once("message", (answer) => end(undefined, answer));
    socket.once("error", end);
    socket.send(bytes, port, address);
  });

export const framed = (bytes: Buffer): Buffer => {
  const head = Buffer.alloc(2);
  head.writeUInt16BE(bytes.length, 0);
  return Buffer.concat([head, bytes]);
};

/** Writes the pieces one after the other over one connection and reads `count` messages; fewer when the other side ends before. */
export const sendTcp = ({ address, port }: NamePlace, pieces: readonly Buffer[], count: number): Promise<Buffer[]> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, address);
    const messages: Buffer[] = [];
    let waiting = Buffer.alloc(0);
    const timer = setTimeout(() => end(new Error(`${messages.length} of ${count} answers over TCP`)), withinMs);
    const end = (error?: Error): void => {
      clearTimeout(timer);
      socket.destroy();
      if (error) reject(error);
      else resolve(messages);
    };
    socket.on("error", end);
    socket.on("end", () => end());
    socket.on("connect", () => {
      const writeFrom = (at: number): void => {
        const piece = pieces[at];
        if (piece) socket.write(piece, () => setImmediate(() => writeFrom(at + 1)));
      };
      writeFrom(0);
    });
    socket.on("data", (chunk) => {
      waiting = Buffer.concat([waiting, chunk]);
      while (waiting.length >= 2 && waiting.length >= 2 + waiting.readUInt16BE(0)) {
        const length = 2 + waiting.readUInt16BE(0);
        messages.push(waiting.subarray(2, length));
        waiting = waiting.subarray(length);
      }
      if (messages.length >= count) end();
    });
  });

export interface Asking {
  tcp?: boolean;
  /** EDNS with this payload size, in bytes. */
  edns?: number;
  flags?: number;
}

let lastId = 0;

export const question = (name: string, type: string, { edns, flags = 0 }: Asking = {}): Buffer => {
  lastId = (lastId + 1) % 65_536;
  const packet: Packet = { type: "query", id: lastId, flags, questions: [{ name, type: type as never, class: "IN" }] };
  if (edns !== undefined) packet.additionals = [{ type: "OPT", name: ".", udpPayloadSize: edns } as never];
  return encode(packet);
};

export const read = (bytes: Buffer): Reply => decode(bytes) as unknown as Reply;

/** Asks one question, as a resolver would. */
export const askName = async (place: NamePlace, name: string, type: string, asking: Asking = {}): Promise<Reply> => {
  const bytes = question(name, type, asking);
  const answer = asking.tcp ? (await sendTcp(place, [framed(bytes)], 1))[0] : await sendUdp(place, bytes);
  if (!answer) throw new Error("no answer");
  const reply = read(answer);
  if (reply.id !== bytes.readUInt16BE(0)) throw new Error("an answer to another question");
  return reply;
};

/** A transfer's records, all of its messages together. */
export const transferOf = async (place: NamePlace, name: string, messages = 1): Promise<Reply> => {
  const replies = (await sendTcp(place, [framed(question(name, "AXFR"))], messages)).map(read);
  const [first] = replies;
  if (!first) throw new Error("no answer");
  return { ...first, answers: replies.flatMap(({ answers }) => answers) };
};

/** `type data` of each record, for comparing. */
export const dataOf = (records: Reply["answers"]): unknown[] => records.filter(({ type }) => type !== "OPT").map(({ data }) => data);
