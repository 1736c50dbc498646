import express, { type NextFunction, type Request, type Response } from "express";
import { Fault } from "../../kernel/fault.js";
import type { Cloud } from "../../resources/cloud.js";
import { thumbnailUrl } from "../../resources/oauth/client.js";
import { Attempts } from "./attempts.js";
import { type Browser, browserOf, formOf, seeOther, sendPage } from "./browser.js";
import { consentOf, errorRedirect, withParameters } from "./consent.js";
import { recordSuccess, userOf, usesCode } from "./login.js";
import { codePage, consentPage, type Form, loginPage, problemPage } from "./pages.js";
import { issueCode, protocolError } from "./protocol.js";
import { Sessions } from "./sessions.js";
import { tokenRoutes } from "./token-routes.js";

const bodyLimitBytes = 32 * 1024;

/** Minutes, rounded up, for people. */
const minutes = (ms: number): string => {
  const count = Math.max(1, Math.ceil(ms / 60_000));
  return count === 1 ? "a minute" : `${count} minutes`;
};

/** The pages under `/oauth/authorize`: log in, second factor, consent. Each request is judged anew from the application's own parameters. */
const pageRoutes = (cloud: Cloud): express.Router => {
  const sessions = new Sessions(cloud.clock);
  const attempts = new Attempts(cloud.clock);
  const router = express.Router();

  const show = (res: Response, browser: Browser, next: string, status = 200, problem?: string, username?: string): void => {
    const consent = consentOf(cloud, new URLSearchParams(next));
    if (consent.kind === "refused") return void sendPage(res, 400, problemPage("This cannot go on", consent.reason));
    if (consent.kind === "returned") return void seeOther(res, consent.to);
    const cookie = browser.cookie ?? sessions.fresh();
    if (browser.cookie === undefined) browser.keep(cookie);
    const form: Form = { token: sessions.formToken(cookie), next, problem };
    const session = sessions.get(cookie);
    const user = session && cloud.store.get("user", session.userId);
    const { client } = consent;
    if (!session || !user) return void sendPage(res, status, loginPage(form, client.label, username));
    if (session.stage === "code") return void sendPage(res, status, codePage(form));
    const { username: name, restricted } = user;
    const shown = { application: client.label, thumbnail: thumbnailUrl(client), scopes: consent.scopes, username: name, restricted };
    sendPage(res, status, consentPage(form, { ...shown, redirectUri: client.redirectUri, refreshes: !client.public }), client.redirectUri);
  };

  /** A form of ours, sent by the browser that got it; anything else is told so, and nothing happens. */
  const ownForm = (req: Request, res: Response): { form: URLSearchParams; browser: Browser; cookie: string; next: string } | undefined => {
    const browser = browserOf(req, res);
    const form = formOf(req);
    const { cookie } = browser;
    const next = form.get("next") ?? "";
    if (browser.isOwnPage && cookie !== undefined && sessions.isFormToken(cookie, form.get("form_token") ?? ""))
      return { form, browser, cookie, next };
    const reason = "This form is too old, was sent from another page, or your browser keeps no cookies. Go back to the application and begin again.";
    sendPage(res, 403, problemPage("Begin again", reason));
    return undefined;
  };

  const tooMany = (res: Response, browser: Browser, next: string, waitMs: number, username?: string): void => {
    res.setHeader("Retry-After", Math.ceil(waitMs / 1000));
    show(res, browser, next, 429, `Too many tries. Try again in ${minutes(waitMs)}.`, username);
  };

  router.get("/authorize", (req, res) => show(res, browserOf(req, res), new URL(req.url, "http://localhost").search.slice(1)));

  router.post("/authorize/login", async (req, res) => {
    const own = ownForm(req, res);
    if (!own) return;
    const username = own.form.get("username") ?? "";
    const ip = req.socket.remoteAddress ?? "";
    const waitMs = attempts.begin(username, ip);
    if (waitMs > 0) return void tooMany(res, own.browser, own.next, waitMs, username);
    const user = await userOf(cloud, username, (own.form.get("password") ?? "").slice(0, 512), ip);
    if (!user) return void show(res, own.browser, own.next, 401, "Username or password is wrong.", username);
    attempts.succeeded(username);
    sessions.end(own.cookie);
    const asksCode = user.twoFactor?.confirmed === true;
    if (!asksCode) await recordSuccess(cloud, user.id, ip);
    own.browser.keep(sessions.begin(user.id, asksCode ? "code" : "in"));
    seeOther(res, `/oauth/authorize?${own.next}`);
  });

  router.post("/authorize/code", async (req, res) => {
    const own = ownForm(req, res);
    if (!own) return;
    const session = sessions.get(own.cookie);
    if (session?.stage !== "code") return void seeOther(res, `/oauth/authorize?${own.next}`);
    const ip = req.socket.remoteAddress ?? "";
    const key = `code of user ${session.userId}`;
    const waitMs = attempts.begin(key, ip);
    if (waitMs > 0) return void tooMany(res, own.browser, own.next, waitMs);
    if (!(await usesCode(cloud, session.userId, (own.form.get("code") ?? "").slice(0, 64), ip))) {
      return void show(res, own.browser, own.next, 401, "This is not the code of now, or it was used already.");
    }
    attempts.succeeded(key);
    sessions.end(own.cookie);
    own.browser.keep(sessions.begin(session.userId, "in"));
    seeOther(res, `/oauth/authorize?${own.next}`);
  });

  router.post("/authorize/logout", (req, res) => {
    const own = ownForm(req, res);
    if (!own) return;
    sessions.end(own.cookie);
    own.browser.keep(sessions.fresh());
    seeOther(res, `/oauth/authorize?${own.next}`);
  });

  router.post("/authorize", async (req, res) => {
    const own = ownForm(req, res);
    if (!own) return;
    const consent = consentOf(cloud, new URLSearchParams(own.next));
    const session = sessions.get(own.cookie);
    if (consent.kind !== "asked" || session?.stage !== "in") return void show(res, own.browser, own.next);
    const { client, parameters } = consent;
    if (own.form.get("decision") !== "allow") {
      return void seeOther(res, errorRedirect(client, parameters.state, "access_denied", "the user said no"));
    }
    try {
      const code = await issueCode(cloud, session.userId, parameters);
      seeOther(res, withParameters(client.redirectUri, { code, state: parameters.state }));
    } catch (error) {
      const told = protocolError(error);
      if (!told || told.cause !== undefined) throw told?.cause ?? error;
      seeOther(res, errorRedirect(client, parameters.state, told.error, told.description));
    }
  });
  return router;
};

/** Everything under `/oauth`: contract 4.4. The only routes that answer HTML, and the only ones with a cookie. */
export const oauthRouter = (cloud: Cloud): express.Router => {
  const router = express.Router({ caseSensitive: true });
  router.use((_req: Request, res: Response, next: NextFunction) => {
    res.setHeader("Cache-Control", "no-store");
    next();
  });
  router.use(express.raw({ type: () => true, limit: bodyLimitBytes }));
  router.use(pageRoutes(cloud));
  router.use(tokenRoutes(cloud));
  router.use((req: Request, res: Response, next: NextFunction) => {
    const verbs = { "/authorize": "GET, HEAD, POST", "/token": "POST", "/token/expire": "POST", "/revoke": "POST" }[req.path];
    if (verbs === undefined) return next();
    res.setHeader("Allow", `${verbs}, OPTIONS`);
    if (req.method !== "OPTIONS") throw new Fault("method-not-allowed", [{ reason: "Method Not Allowed" }]);
    res.writeHead(200, { "Content-Type": "application/json" }).end("{}");
  });
  return router;
};
