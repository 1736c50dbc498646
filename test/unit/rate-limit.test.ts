import { describe, expect, it } from "vitest";
import { openRateLimits, rateClass } from "#backlot/http/rate-limit.js";
import { routes } from "#backlot/resources/index.js";

const clockAt = (start: number) => {
  let now = start;
  const pass = (ms: number): void => {
    now += ms;
  };
  return { now: () => now, simulated: (ms: number) => ms / 10, pass };
};
const endpoint = (method: "GET" | "POST", path: string, answers: "list" | "one" = "one") => ({ method, path, answers });

describe("rate limits (contract 7.2)", () => {
  it("have a class for every route, and the narrow ones name routes by their real paths", () => {
    const limits = new Map(routes.map((route) => [`${route.method} ${route.path}`, rateClass(route).limit]));
    expect(limits.get("POST /v4/cloud/instances")).toBe(20);
    expect(limits.get("GET /v4/images")).toBe(20);
    expect(limits.get("GET /v4/cloud/scripts")).toBe(60);
    expect(limits.get("GET /v4/balancers")).toBe(200);
    expect(limits.get("PUT /v4/balancers/:balancerId")).toBe(1600);
    expect(rateClass(endpoint("GET", "/v4/balancers/:balancerId/stats")).limit).toBe(50);
  });

  it("count down within a window, refuse beyond, and begin anew after it", () => {
    const clock = clockAt(1_000_000);
    const limits = openRateLimits(clock, true);
    const create = endpoint("POST", "/v4/cloud/instances");
    const taken = Array.from({ length: 21 }, () => limits.take("a", create));
    expect(taken.map(({ remaining }) => remaining).slice(0, 3)).toEqual([19, 18, 17]);
    expect(taken.map(({ refused }) => refused).lastIndexOf(false)).toBe(19);
    // Fifteen seconds at a speed of ten.
    expect(new Set(taken.map(({ resetMs }) => resetMs))).toEqual(new Set([1_001_500]));
    clock.pass(1_499);
    expect(limits.take("a", create).refused).toBe(true);
    clock.pass(1);
    expect(limits.take("a", create)).toMatchObject({ refused: false, remaining: 19 });
  });

  it("are apart by caller and endpoint", () => {
    const limits = openRateLimits(clockAt(0), true);
    for (let count = 0; count < 25; count += 1) limits.take("a", endpoint("POST", "/v4/cloud/instances"));
    expect(limits.take("b", endpoint("POST", "/v4/cloud/instances")).refused).toBe(false);
    expect(limits.take("a", endpoint("GET", "/v4/cloud/instances", "list")).refused).toBe(false);
  });

  it("forget the oldest windows rather than grow for ever", () => {
    const limits = openRateLimits(clockAt(0), true);
    const create = endpoint("POST", "/v4/cloud/instances");
    for (let count = 0; count < 25; count += 1) limits.take("first", create);
    expect(limits.take("first", create).refused).toBe(true);
    for (let caller = 0; caller < 10_000; caller += 1) limits.take(`c${caller}`, create);
    expect(limits.take("first", create).refused).toBe(false);
  });

  it("refuse nothing when they are off", () => {
    const limits = openRateLimits(clockAt(0), false);
    for (let count = 0; count < 50; count += 1) {
      expect(limits.take("a", endpoint("POST", "/v4/cloud/instances"))).toMatchObject({ refused: false, remaining: 20, limit: 20 });
    }
  });
});
