/** Answers by the bytes of their question, the id left out. Whoever changes what is answered clears it. */
export interface AnswerCache {
  /** A message of its own for this packet, with the packet's id; undefined when it was not asked lately. */
  find(packet: Buffer, recursion: boolean): Buffer | undefined;
  keep(packet: Buffer, recursion: boolean, message: Buffer): void;
  clear(): void;
}

/** With the largest message (1232 bytes) some 5 MB. */
const mostEntries = 4_096;
/** A question of the longest name, with EDNS and a cookie. */
const longestPacket = 320;
const shortestPacket = 12;

/** Resolvers ask the same again and again, and making an answer costs more than sending it. For UDP, where an answer is one message. */
export const answerCache = (): AnswerCache => {
  const messages = new Map<string, Buffer>();
  const keyOf = (packet: Buffer, recursion: boolean): string => (recursion ? "r" : "-") + packet.toString("latin1", 2);
  const fits = (packet: Buffer): boolean => packet.length >= shortestPacket && packet.length <= longestPacket;
  return {
    find: (packet, recursion) => {
      const kept = fits(packet) ? messages.get(keyOf(packet, recursion)) : undefined;
      if (!kept) return undefined;
      const message = Buffer.from(kept);
      message.writeUInt16BE(packet.readUInt16BE(0), 0);
      return message;
    },
    keep: (packet, recursion, message) => {
      if (!fits(packet)) return;
      if (messages.size >= mostEntries) messages.clear();
      messages.set(keyOf(packet, recursion), message);
    },
    clear: () => messages.clear(),
  };
};
