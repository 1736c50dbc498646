// Judges every regular expression of the product: fails on one whose time grows faster than its text, and when it found none.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { checkSync } from "recheck";
import ts from "typescript";

/** Made at run time, by file: why each of them cannot be made to backtrack. A new place has to be judged here by a person. */
const judged = {
  "src/http/dialects/dialect.ts": "from slugs of a table of ours",
  "src/resources/configs/fields.ts": "a user's; compiled, never run",
  "src/resources/profiles/profile.ts": "from device names of ours",
};

const literals = new Map();
const made = new Map();

const isRegExpCall = (node) =>
  (ts.isNewExpression(node) || ts.isCallExpression(node)) && ts.isIdentifier(node.expression) && node.expression.text === "RegExp";

const files = readdirSync("src", { recursive: true })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => join("src", name));
for (const file of files) {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
  const visit = (node) => {
    const place = () => `${file}:${source.getLineAndCharacterOfPosition(node.getStart()).line + 1}`;
    if (node.kind === ts.SyntaxKind.RegularExpressionLiteral) literals.set(node.text, [...(literals.get(node.text) ?? []), place()]);
    if (isRegExpCall(node)) made.set(file, place());
    ts.forEachChild(node, visit);
  };
  visit(source);
}

const faults = [];
for (const [file, place] of made)
  if (!(file in judged)) faults.push(`${place}: made at run time; say in test/regular-expressions.mjs why it is safe`);
for (const file of Object.keys(judged)) if (!made.has(file)) faults.push(`${file}: makes no regular expression any more; take it out of the list`);

// One after the other: judged side by side, the tool finds faults that are none.
const verdicts = [...literals].map(([text, places]) => {
  const end = text.lastIndexOf("/");
  return { text, places, verdict: checkSync(text.slice(1, end), text.slice(end + 1), { timeout: 30_000, randomSeed: 1 }) };
});
for (const { text, places, verdict } of verdicts) {
  if (verdict.status === "safe") continue;
  const why = verdict.status === "vulnerable" ? verdict.complexity.summary : `not judged (${verdict.error.kind})`;
  faults.push(`${places.join(", ")}: ${text} is ${why}${verdict.attack ? `, for example on ${verdict.attack.pattern}` : ""}`);
}

for (const fault of faults) process.stderr.write(`${fault}\n`);
process.stdout.write(`regular expressions: ${literals.size} judged, ${faults.length} faults\n`);
process.exitCode = literals.size === 0 || faults.length > 0 ? 1 : 0;
