/** One `-----BEGIN …-----` to `-----END …-----` (RFC 7468), with the lines in between as they came. */
interface PemBlock {
  label: string;
  text: string;
  /** The old header of a key with a passphrase (RFC 1421 `Proc-Type: 4,ENCRYPTED`). */
  encrypted: boolean;
}

export interface Pem {
  blocks: PemBlock[];
  /** Label of a block whose END line is missing. */
  unclosed: string | undefined;
}

/**
 * Capitals only and short, because a label is quoted in reasons: a key sent on one single line
 * (`-----BEGIN PRIVATE KEY-----MII…-----END PRIVATE KEY-----`) must not pass as a label.
 */
const label = /^[A-Z0-9 .]{1,40}$/;

const labelOf = (line: string, word: "BEGIN" | "END"): string | undefined => {
  const start = `-----${word} `;
  if (!line.startsWith(start) || !line.endsWith("-----")) return undefined;
  const name = line.slice(start.length, -5);
  return label.test(name) ? name : undefined;
};

/** Text before, between and after the blocks is skipped, as TLS libraries do. One pass: a megabyte of anything takes milliseconds. */
export const pemOf = (text: string): Pem => {
  const blocks: PemBlock[] = [];
  let open: { label: string; lines: string[] } | undefined;
  for (const raw of text.split("\n")) {
    const line = raw.trimEnd();
    const begun = labelOf(line, "BEGIN");
    if (begun !== undefined) {
      if (open) break;
      open = { label: begun, lines: [line] };
    } else if (open) {
      open.lines.push(line);
      if (labelOf(line, "END") !== open.label) continue;
      blocks.push({
        label: open.label,
        text: `${open.lines.join("\n")}\n`,
        encrypted: open.lines.some((each) => each.startsWith("Proc-Type: 4,ENCRYPTED")),
      });
      open = undefined;
    }
  }
  return { blocks, unclosed: open?.label };
};

const begin = "-----BEGIN ";

/** Why a text holds no block at all, for the two most frequent accidents. */
export const hiddenBegin = (text: string): string => {
  const line = text
    .split("\n")
    .find((each) => each.includes(begin))
    ?.trimEnd();
  if (line === undefined) return "";
  return line.indexOf(begin) > 0 && labelOf(line.slice(line.indexOf(begin)), "BEGIN") !== undefined
    ? " Something stands before the BEGIN line, spaces or a byte order mark perhaps: take it away, on every line."
    : " The line breaks seem to be lost: each BEGIN and END must stand on a line of its own.";
};
