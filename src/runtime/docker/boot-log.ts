import type Docker from "dockerode";
import { statusOf } from "./engine.js";

const mostBytes = 64 * 1024;
const mostLines = 2000;

/** Takes the engine's frames apart: 4 bytes of stream, 4 bytes of length (big endian), then the text (Docker API, "Attach to a container"). */
export const framesText = (frames: Buffer): Buffer => {
  const pieces: Buffer[] = [];
  for (let at = 0; at + 8 <= frames.length; ) {
    const length = frames.readUInt32BE(at + 4);
    pieces.push(frames.subarray(at + 8, at + 8 + length));
    at += 8 + length;
  }
  return Buffer.concat(pieces);
};

/** The last 64 KiB, from the beginning of a line. */
export const lastPart = (text: Buffer): string => {
  if (text.length <= mostBytes) return text.toString();
  const tail = text.subarray(text.length - mostBytes);
  return tail.subarray(tail.indexOf(10) + 1).toString();
};

export const bootLog = async (container: Docker.Container): Promise<string> => {
  try {
    return lastPart(framesText(await container.logs({ stdout: true, stderr: true, tail: mostLines })));
  } catch (error) {
    if (statusOf(error) === 404) return "";
    throw error;
  }
};
