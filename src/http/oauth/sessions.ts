import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../kernel/clock.js";

/** Who sits at a browser. `code`: the password was right, the second factor is still asked for. */
interface Session {
  userId: number;
  stage: "in" | "code";
  endsMs: number;
}

const sessionMs = 60 * 60 * 1000;
const codeStageMs = 5 * 60 * 1000;
const keptSessions = 1_000;

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Logins at the page, in memory: a restart logs everybody out, and nothing of them is on disk. */
export class Sessions {
  readonly #clock: Clock;
  /** By the hash of the cookie. */
  readonly #sessions = new Map<string, Session>();
  readonly #key = randomBytes(32);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The value of a cookie; by itself it lets nobody in. */
  fresh(): string {
    return randomBytes(32).toString("hex");
  }

  /** A form of ours carries this, and a page from elsewhere cannot know it. */
  formToken(cookie: string): string {
    return createHmac("sha256", this.#key).update(cookie).digest("hex");
  }

  isFormToken(cookie: string, given: string): boolean {
    const wanted = Buffer.from(this.formToken(cookie));
    const got = Buffer.from(given);
    return wanted.length === got.length && timingSafeEqual(wanted, got);
  }

  get(cookie: string): Session | undefined {
    const session = this.#sessions.get(sha256(cookie));
    return session && session.endsMs > this.#clock.now() ? session : undefined;
  }

  /** Makes a session under a new cookie, so that one planted before the login is worth nothing. */
  begin(userId: number, stage: Session["stage"]): string {
    const cookie = this.fresh();
    const now = this.#clock.now();
    for (const [key, { endsMs }] of this.#sessions) if (endsMs <= now) this.#sessions.delete(key);
    const [oldest] = this.#sessions.keys();
    if (oldest !== undefined && this.#sessions.size >= keptSessions) this.#sessions.delete(oldest);
    this.#sessions.set(sha256(cookie), { userId, stage, endsMs: now + (stage === "in" ? sessionMs : codeStageMs) });
    return cookie;
  }

  end(cookie: string): void {
    this.#sessions.delete(sha256(cookie));
  }
}
