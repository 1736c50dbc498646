import { setFlagsFromString } from "node:v8";

/**
 * What a start allocates is mostly garbage soon after, and V8 never gives back the young space it grew for it: 25 MB of idle memory (Node 20).
 * So that space does not grow while Backlot starts, and may once it serves. This module is imported before any other of ours.
 */
const growthFactor = (factor: number): void => setFlagsFromString(`--semi-space-growth-factor=${factor}`);

growthFactor(1);

/** V8's own factor, for what is to come. */
export const letYoungSpaceGrow = (): void => growthFactor(2);
