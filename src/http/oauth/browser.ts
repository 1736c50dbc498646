import type { Request, Response } from "express";
import { styleHash } from "./pages.js";

/** A request's browser: its session cookie, and whether one of our own pages sent it. */
export interface Browser {
  cookie: string | undefined;
  /** False for a form that another origin sent, be it another port of this machine, which `SameSite` lets through. */
  isOwnPage: boolean;
  keep(cookie: string): void;
}

/**
 * Cookies know no ports, so the name has ours: two Backlots on one machine do not log each other's users out. The path keeps it away from
 * an application's own `/oauth/callback` on the same host.
 */
const cookieName = (req: Request): string => `backlot_session_${req.socket.localPort}`;

const cookieOf = (req: Request): string | undefined => {
  const name = cookieName(req);
  const given = (req.headers.cookie ?? "").split(";").map((part) => part.trim().split("="));
  const [, value] = given.find(([key]) => key === name) ?? [];
  return value !== undefined && /^[0-9a-f]{64}$/.test(value) ? value : undefined;
};

export const browserOf = (req: Request, res: Response): Browser => {
  const { origin, host } = req.headers;
  const site = req.headers["sec-fetch-site"];
  const browser: Browser = {
    cookie: cookieOf(req),
    isOwnPage: (origin === undefined || origin === `http://${host}`) && (site === undefined || site === "same-origin" || site === "none"),
    keep: (cookie) => {
      browser.cookie = cookie;
      res.setHeader("Set-Cookie", `${cookieName(req)}=${cookie}; Path=/oauth/authorize; HttpOnly; SameSite=Lax`);
    },
  };
  return browser;
};

/** A form-encoded body; empty for any other kind. */
export const formOf = (req: Request): URLSearchParams => {
  const isForm = /^application\/x-www-form-urlencoded\s*(;|$)/i.test(req.headers["content-type"] ?? "");
  return new URLSearchParams(isForm && Buffer.isBuffer(req.body) ? req.body.toString("utf8") : "");
};

/** Where a form's answer may lead: browsers hold redirects against `form-action` too, so the application's own place has to stand there. */
const formAction = (redirectUri: string | undefined): string => {
  if (redirectUri === undefined) return "'self'";
  const { origin, protocol } = new URL(redirectUri);
  return `'self' ${origin === "null" ? protocol : origin}`;
};

export const sendPage = (res: Response, status: number, html: string, redirectUri?: string): void => {
  const bytes = Buffer.from(html);
  res.setHeader(
    "Content-Security-Policy",
    `default-src 'none'; style-src ${styleHash}; img-src 'self' data:; form-action ${formAction(redirectUri)}; frame-ancestors 'none'; base-uri 'none'`,
  );
  // `no-referrer` would make browsers send `Origin: null` with our own forms.
  res.setHeader("Referrer-Policy", "same-origin");
  res.writeHead(status, { "Content-Type": "text/html; charset=utf-8", "Content-Length": bytes.length }).end(bytes);
};

export const seeOther = (res: Response, to: string): void => {
  res.setHeader("Referrer-Policy", "no-referrer");
  res.writeHead(303, { Location: to, "Content-Length": 0 }).end();
};
