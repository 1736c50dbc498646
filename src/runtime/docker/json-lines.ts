/**
 * The engine's streams: one JSON object a line. Throws when the stream breaks or is destroyed.
 * Not by `node:readline`, whose iterator never ends when its input is destroyed (measured on Node 20).
 */
export async function* jsonLines<T>(stream: NodeJS.ReadableStream): AsyncGenerator<T> {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") yield JSON.parse(line) as T;
  }
  if (rest.trim() !== "") yield JSON.parse(rest) as T;
}
