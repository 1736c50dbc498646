import express, { type Request, type Response } from "express";
import type { Cloud } from "../../resources/cloud.js";
import { formOf } from "./browser.js";
import { authenticatedClient, issueTokens, type Parameters, protocolError, revokeGrant } from "./protocol.js";

const send = (res: Response, status: number, body: object): void => {
  const bytes = Buffer.from(JSON.stringify(body));
  res.setHeader("Pragma", "no-cache");
  res.writeHead(status, { "Content-Type": "application/json", "Content-Length": bytes.length }).end(bytes);
};

/** RFC 6749 section 5.2, with our own member beside it (contract 4.4). */
const sendError = (res: Response, status: number, error: string, description: string): void => {
  if (status === 401) res.setHeader("WWW-Authenticate", 'Basic realm="Backlot"');
  send(res, status, { error, error_description: description, errors: [{ reason: description }] });
};

/** A form whose members come once each (RFC 6749 section 3.2); undefined when it is none, and then that was answered. */
const parametersOf = (req: Request, res: Response): Parameters | undefined => {
  const form = formOf(req);
  if ([...form.keys()].length === 0) {
    sendError(res, 400, "invalid_request", "Send a form: Content-Type: application/x-www-form-urlencoded, with at least one member.");
    return undefined;
  }
  const twice = [...new Set(form.keys())].filter((name) => form.getAll(name).length > 1);
  if (twice.length === 0) return Object.fromEntries([...form].filter(([, value]) => value !== ""));
  sendError(res, 400, "invalid_request", `Given more than once: ${twice.join(", ").slice(0, 200)}.`);
  return undefined;
};

/** Client and secret of an `Authorization: Basic` header (RFC 6749 section 2.3.1). */
const basicOf = (header: string | undefined): { id: string; secret: string } | undefined => {
  const encoded = /^Basic +([A-Za-z0-9+/=]+)$/i.exec(header ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const [id = "", ...secret] = Buffer.from(encoded, "base64").toString("utf8").split(":");
  return { id, secret: secret.join(":") };
};

/** For clients without a browser between them and us: no cookie is read here. */
export const tokenRoutes = (cloud: Cloud): express.Router => {
  const router = express.Router({ caseSensitive: true });

  router.post("/token", async (req, res) => {
    const given = parametersOf(req, res);
    if (!given) return;
    const type = given.grant_type ?? (given.code === undefined ? undefined : "authorization_code");
    const parameters = { ...given, ...(type === undefined ? {} : { grant_type: type }) };
    try {
      send(res, 200, await issueTokens(cloud, parameters, req.headers.authorization));
    } catch (error) {
      const told = protocolError(error);
      if (!told || told.cause !== undefined) throw told?.cause ?? error;
      sendError(res, told.status, told.error, told.description);
    }
  });

  const revoke = async (req: Request, res: Response): Promise<void> => {
    const given = parametersOf(req, res);
    if (!given) return;
    const basic = basicOf(req.headers.authorization);
    const client = authenticatedClient(cloud, basic?.id ?? given.client_id ?? "", basic?.secret ?? given.client_secret);
    if (!client) return void sendError(res, 401, "invalid_client", "The client is unknown, or its secret is wrong.");
    if (given.token === undefined) return void sendError(res, 400, "invalid_request", "Missing parameter: `token`");
    await revokeGrant(cloud, client, given.token);
    send(res, 200, {});
  };
  router.post("/token/expire", revoke);
  router.post("/revoke", revoke);
  return router;
};
