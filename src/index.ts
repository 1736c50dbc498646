export { cleanMachine, type Leftover } from "./clean.js";
export type { Config } from "./config/settings.js";
export { type Examined, examine } from "./doctor/doctor.js";
export type { Finding } from "./doctor/finding.js";
export { type Hooks, openCloud as startBacklot, type Running as Backlot } from "./main.js";
