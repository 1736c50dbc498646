import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { makeUser, password } from "../api/identity.js";
import { apiOf, type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { makeClient, pkce, postForm } from "../support/oauth.js";
import { hasChromium, openChromium } from "./chromium.js";

describe.runIf(hasChromium)("the login and consent pages, in Chromium", () => {
  let cloud: TestCloud;
  let browser: Browser;
  let page: Page;
  let application: Server;
  let client: Json;
  let username: string;
  /** What the browser told about the page: blocked by policy, broken markup. */
  const complaints: string[] = [];
  const keys = pkce();

  beforeAll(async () => {
    cloud = await startCloud();
    application = createServer((_request, response) => response.end("the application")).listen(0, "127.0.0.1");
    await new Promise((resolve) => application.once("listening", resolve));
    const redirect = `http://127.0.0.1:${(application.address() as AddressInfo).port}/oauth/callback`;
    client = await makeClient(cloud, { label: "Prompter", redirect_uri: redirect, public: true });
    username = (await makeUser(cloud, { restricted: false })).username;
    browser = await openChromium();
  });
  afterAll(async () => {
    await browser.close();
    application.closeAllConnections();
    await new Promise((resolve) => application.close(resolve));
    await cloud.close();
  });
  beforeEach(async () => {
    const context = await browser.newContext();
    page = await context.newPage();
    complaints.length = 0;
    page.on("console", (message) => complaints.push(message.text()));
    return () => context.close();
  });

  const start = async (more: Record<string, string> = {}): Promise<void> => {
    const query = { client_id: client.id, response_type: "code", scope: "balancers:read_write events:read_only", state: "act 1 & 2", ...more };
    const proof = { code_challenge: keys.challenge, code_challenge_method: "S256" };
    await page.goto(`${cloud.url}/oauth/authorize?${new URLSearchParams({ ...query, ...proof, redirect_uri: client.redirect_uri })}`);
  };
  const logIn = async (secret = password): Promise<void> => {
    await page.getByLabel("Username").fill(username);
    await page.getByLabel("Password").fill(secret);
    await page.getByRole("button", { name: "Log in" }).click();
  };

  it("login, consent, and back at the application with a code that becomes a token that works", async () => {
    await start();
    await logIn();
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Allow Prompter to use your account?");
    expect(await page.getByRole("listitem").allTextContents()).toEqual(["Read and change balancers", "Read events"]);
    await page.getByRole("button", { name: "Allow", exact: true }).click();
    await page.waitForURL((url) => url.pathname === "/oauth/callback");
    expect(await page.textContent("body")).toBe("the application");
    const back = new URL(page.url());
    expect(back.searchParams.get("state")).toBe("act 1 & 2");

    const form = { grant_type: "authorization_code", code: back.searchParams.get("code") ?? "", client_id: client.id, code_verifier: keys.verifier };
    const { body } = await postForm(cloud.url, "/oauth/token", { ...form, redirect_uri: client.redirect_uri });
    const api = apiOf(cloud.url, body.access_token);
    expect((await api.post("/v4/balancers", { label: "from-the-browser", region: "us-east" })).status).toBe(200);
    expect((await api.get("/v4/cloud/instances")).status).toBe(401);
    expect(complaints).toEqual([]);
  });

  it("the application never sees the session: its callback gets no cookie", async () => {
    const seen: string[] = [];
    application.on("request", (request) => seen.push(request.headers.cookie ?? "none"));
    await start();
    await logIn();
    await page.getByRole("button", { name: "Allow", exact: true }).click();
    await page.waitForURL((url) => url.pathname === "/oauth/callback");
    expect(seen.length).toBeGreaterThan(0);
    expect(new Set(seen)).toEqual(new Set(["none"]));
  });

  it("denial leads back without a code", async () => {
    await start();
    await logIn();
    await page.getByRole("button", { name: "Deny" }).click();
    await page.waitForURL((url) => url.pathname === "/oauth/callback");
    const { searchParams } = new URL(page.url());
    expect(searchParams.get("error")).toBe("access_denied");
    expect(searchParams.has("code")).toBe(false);
  });

  it("a wrong password is told, keeps the name, and puts the cursor where it is needed", async () => {
    await start();
    await logIn("Wrong-Password-1");
    expect(await page.getByRole("alert").textContent()).toBe("Username or password is wrong.");
    expect(await page.getByLabel("Username").inputValue()).toBe(username);
    expect(await page.getByLabel("Password").inputValue()).toBe("");
    expect(await page.getByLabel("Password").evaluate((element) => element === element.ownerDocument.activeElement)).toBe(true);
    await logIn();
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toContain("Prompter");
  });

  it("works by keyboard alone, and a second application does not ask for the password again until one logs out", async () => {
    await start();
    await page.locator("#username:focus").waitFor();
    await page.keyboard.type(username);
    await page.keyboard.press("Tab");
    await page.keyboard.type(password);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Allow", exact: true }).waitFor();
    await start({ scope: "*" });
    expect(await page.getByRole("listitem").allTextContents()).toEqual(["Everything: read and change all there is"]);
    await page.getByRole("button", { name: "Log in as somebody else" }).click();
    await page.getByLabel("Password").waitFor();
  });

  it.each([
    ["light", 375],
    ["dark", 375],
    ["light", 1280],
    ["dark", 1280],
  ] as const)("%s, %d pixels wide: nothing sticks out, and text stands out from its ground", async (colorScheme, width) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 700 });
    await start();
    await logIn("Wrong-Password-2");
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
    await logIn();
    await page.getByRole("button", { name: "Deny" }).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
    for (const selector of ["h1", "li", ".soft", ".name", "button"]) {
      expect(await page.locator(selector).first().evaluate(contrast), selector).toBeGreaterThanOrEqual(4.5);
    }
  });

  it("an address that no application registered is told, and leads nowhere", async () => {
    await page.goto(`${cloud.url}/oauth/authorize?client_id=${client.id}&redirect_uri=http://evil.test/`);
    expect(await page.getByRole("alert").textContent()).toContain("redirect_uri");
    expect(new URL(page.url()).origin).toBe(cloud.url);
  });
});

/** WCAG's contrast of an element's text with the first opaque ground below it; runs in the page, so it is one function. */
const contrast = (element: Json): number => {
  const view = element.ownerDocument.defaultView;
  const channels = (color: string): number[] => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (color: string): number => {
    const [r = 0, g = 0, b = 0] = channels(color).map((value) =>
      value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let ground: Json = element;
  while (ground.parentElement && channels(view.getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
  const [dark = 0, bright = 0] = [view.getComputedStyle(element).color, view.getComputedStyle(ground).backgroundColor]
    .map(luminance)
    .sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
};
