import { createHash } from "node:crypto";
import { scopeWords } from "../../resources/tokens/scopes.js";

const style = `
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --ground: #f3f1ec; --card: #fff; --line: #d5d0c6; --act: #7a2e1d; --on-act: #fff; --bad: #a40e26; --bad-ground: #fdecee; }
@media (prefers-color-scheme: dark) { :root { --ink: #ece8e1; --soft: #aaa49a; --ground: #17150f; --card: #211e18; --line: #433d33; --act: #f0a58c; --on-act: #2a0f07; --bad: #ffb3bc; --bad-ground: #43171d; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 26rem; padding: 2rem; background: var(--card); border: 1px solid var(--line); border-radius: .75rem; }
.name { margin: 0 0 1.25rem; font-weight: 700; letter-spacing: .02em; color: var(--act); }
h1 { margin: 0 0 .75rem; font-size: 1.35rem; line-height: 1.3; overflow-wrap: anywhere; }
p { margin: 0 0 1rem; overflow-wrap: anywhere; }
label { display: block; margin: 0 0 .25rem; font-weight: 600; }
input { width: 100%; margin: 0 0 1rem; padding: .6rem .7rem; font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--soft); border-radius: .4rem; }
button { min-height: 2.75rem; padding: .5rem 1.25rem; font: inherit; font-weight: 600; color: var(--on-act); background: var(--act); border: 1px solid var(--act); border-radius: .4rem; cursor: pointer; }
button.quiet { color: var(--ink); background: transparent; border-color: var(--soft); }
button.link { min-height: 0; padding: 0; color: var(--act); background: none; border: 0; text-decoration: underline; }
:focus-visible { outline: 3px solid var(--act); outline-offset: 2px; }
.row { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.25rem 0 0; }
.row button { flex: 1 1 8rem; }
.soft { color: var(--soft); font-size: .9rem; }
.alert { padding: .6rem .8rem; color: var(--bad); background: var(--bad-ground); border: 1px solid currentColor; border-radius: .4rem; }
ul { margin: 0 0 1rem; padding: 0 0 0 1.2rem; }
img { display: block; width: 3.5rem; height: 3.5rem; margin: 0 0 1rem; border-radius: .5rem; object-fit: cover; }
form.aside { margin: 1.25rem 0 0; padding: 1rem 0 0; border-top: 1px solid var(--line); }
code { overflow-wrap: anywhere; }
`;

const icon = encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#7a2e1d"/><path d="M3 4h10v5H3zM5 9v4M11 9v4" stroke="#fff" stroke-width="1.5" fill="none"/></svg>',
);

/** The one style of the pages, as the browser's policy names it. */
export const styleHash = `'sha256-${createHash("sha256").update(style).digest("base64")}'`;

const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const safe = (text: string): string => text.replace(/[&<>"']/g, (mark) => entities[mark] ?? mark);

const page = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="data:image/svg+xml,${icon}">
<title>${safe(title)} · Backlot</title>
<style>${style}</style>
</head>
<body>
<main>
<p class="name">Backlot</p>
${body}
</main>
</body>
</html>
`;

export interface Form {
  /** Proves that a form is ours. */
  token: string;
  /** The application's request, to come back to. */
  next: string;
  problem?: string | undefined;
}

const hidden = ({ token, next }: Form): string =>
  `<input type="hidden" name="form_token" value="${safe(token)}"><input type="hidden" name="next" value="${safe(next)}">`;

const alert = (problem: string | undefined): string => (problem === undefined ? "" : `<p class="alert" role="alert">${safe(problem)}</p>`);

export const loginPage = (form: Form, application: string, username = ""): string =>
  page(
    "Log in",
    `<h1>Log in to this machine's cloud</h1>
<p><strong>${safe(application)}</strong> asks for access to it.</p>
${alert(form.problem)}
<form method="post" action="/oauth/authorize/login">
${hidden(form)}
<label for="username">Username</label>
<input id="username" name="username" value="${safe(username)}" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="64" required${username === "" ? " autofocus" : ""}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="512" aria-describedby="hint" required${username === "" ? "" : " autofocus"}>
<p class="soft" id="hint">As long as you have no password, a full-rights access token of yours, such as the one that <code>backlot start</code> prints, does instead.</p>
<div class="row"><button type="submit">Log in</button></div>
</form>`,
  );

export const codePage = (form: Form): string =>
  page(
    "Second factor",
    `<h1>One more thing: the code</h1>
<p>Type the six digits that your authenticator app shows now, or your scratch code.</p>
${alert(form.problem)}
<form method="post" action="/oauth/authorize/code">
${hidden(form)}
<label for="code">Code</label>
<input id="code" name="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false" maxlength="32" required autofocus>
<div class="row"><button type="submit">Go on</button></div>
</form>`,
  );

const things: Record<string, string> = {
  account: "your account, its users, tokens and keys",
  balancers: "balancers",
  domains: "domains and their records",
  events: "events",
  images: "images",
  instances: "instances",
  ips: "IP addresses",
  scripts: "scripts",
  volumes: "volumes",
};

const scopeLine = (scope: string): string => {
  if (scope === "*") return "<strong>Everything</strong>: read and change all there is";
  const [word = "", level = ""] = scope.split(":");
  const verb = level === "read_only" ? "Read" : "Read and change";
  return `${verb} ${Object.hasOwn(things, word) ? things[word] : `${safe(word)} (does not exist here)`}`;
};

export interface ConsentShown {
  application: string;
  thumbnail: string | null;
  scopes: string;
  username: string;
  restricted: boolean;
  redirectUri: string;
  refreshes: boolean;
}

export const consentPage = (form: Form, shown: ConsentShown): string =>
  page(
    `Allow ${shown.application}?`,
    `${shown.thumbnail === null ? "" : `<img src="${safe(shown.thumbnail)}" alt="">`}
<h1>Allow ${safe(shown.application)} to use your account?</h1>
${alert(form.problem)}
<p>It asks to:</p>
<ul>${scopeWords(shown.scopes)
      .map((scope) => `<li>${scopeLine(scope)}</li>`)
      .join("")}</ul>
${shown.restricted ? '<p class="soft">You are a restricted user: it can never do more than you can.</p>' : ""}
<p class="soft">${shown.refreshes ? "It can renew its access until you take it back." : "Access ends after two hours."} You then go on to <code>${safe(shown.redirectUri)}</code>.</p>
<form method="post" action="/oauth/authorize">
${hidden(form)}
<div class="row"><button type="submit" name="decision" value="allow">Allow</button><button class="quiet" type="submit" name="decision" value="deny">Deny</button></div>
</form>
<form class="aside" method="post" action="/oauth/authorize/logout">
${hidden(form)}
<p class="soft">You are <strong>${safe(shown.username)}</strong>. <button class="link" type="submit">Log in as somebody else</button></p>
</form>`,
  );

export const problemPage = (title: string, reason: string): string =>
  page(
    title,
    `<h1>${safe(title)}</h1><p class="alert" role="alert">${safe(reason)}</p><p class="soft">Nothing was allowed and nothing was changed.</p>`,
  );
