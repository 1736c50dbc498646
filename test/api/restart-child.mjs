// A whole Backlot in a process of its own, so that a test can kill it. The settings come as JSON on standard input; the first line out is
// `{"url","token","pid"}`.
import { text } from "node:stream/consumers";
import { openCloud } from "#backlot/main.js";

const { url, token, pid } = await openCloud(JSON.parse(await text(process.stdin)));
process.stdout.write(`${JSON.stringify({ url, token, pid })}\n`);
