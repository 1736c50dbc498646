import { crash } from "./crash.js";
import { preparation } from "./preparation.js";
import { secureService } from "./secure-service.js";
import type { Step } from "./stage.js";

/** The whole story in its order: a balanced service from nothing to HTTPS, a crash and a refusal. */
export const story: readonly Step[] = [...preparation, ...secureService, ...crash];
