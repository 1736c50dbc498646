// Who is measured, and who stands behind them. Everything listens on ports that nobody has, and ends with the process that asked for it.
import { execFileSync, fork, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";

const SIZES = { small: 64, "64 KiB": 65_536, "10 MiB": 10_485_760 };

/** What Backlot chooses; the others are told to, so that everybody encrypts alike. */
const SUITE = "TLS_AES_128_GCM_SHA256";

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

const listens = async (port) => {
  for (let turn = 0; turn < 300; turn++) {
    const open = await new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1", () => resolve(true)).on("error", () => resolve(false));
      socket.unref();
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`nobody listens on ${port}`);
};

export const isInstalled = (name, flag = "-v") => {
  try {
    execFileSync(name, [flag], { stdio: "ignore" });
    return true;
  } catch (error) {
    return error.code !== "ENOENT";
  }
};

/** Key and self-signed certificate (RSA 2048) in `folder`. */
export const makePair = (folder) => {
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  execFileSync(
    "openssl",
    ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-subj", "/C=DE/CN=localhost", "-days", "2"],
    {
      stdio: "ignore",
    },
  );
  const both = join(folder, "both.pem");
  writeFileSync(both, readFileSync(key, "utf8") + readFileSync(cert, "utf8"));
  return { key, cert, both };
};

const nginxLines = (
  folder,
  servers,
) => `${process.getuid?.() === 0 ? "user root;" : ""} worker_processes 1; daemon off; pid ${folder}/nginx.pid; error_log ${folder}/nginx.log;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 100000000; sendfile on;
  client_body_temp_path ${folder}/t1; proxy_temp_path ${folder}/t2; fastcgi_temp_path ${folder}/t3; uwsgi_temp_path ${folder}/t4; scgi_temp_path ${folder}/t5;
${servers} }
`;

const startNginx = async (folder, name, servers, port) => {
  const own = join(folder, name);
  mkdirSync(own);
  writeFileSync(join(own, "nginx.conf"), nginxLines(own, servers));
  const child = spawn("nginx", ["-c", join(own, "nginx.conf"), "-p", own, "-e", join(own, "nginx.log")], { stdio: "ignore" });
  await listens(port);
  // The work is done by the child of that child.
  const worker = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim().split(" ")[0]);
  return { child, pid: worker || child.pid };
};

/** The back end: static answers, so cheap that it is not what is measured. */
export const startBackend = async (folder) => {
  const port = await freePort();
  const files = join(folder, "www");
  mkdirSync(files);
  for (const [name, bytes] of Object.entries(SIZES)) writeFileSync(join(files, name.replace(" ", "-")), Buffer.alloc(bytes, "x"));
  return { port, ...(await startNginx(folder, "backend", `server { listen 127.0.0.1:${port} backlog=4096; root ${files}; }`, port)) };
};

const startHaproxy = async (folder, backend, pair) => {
  const [http, https, tcp] = [await freePort(), await freePort(), await freePort()];
  const front = (name, bind, proto) => `frontend ${name}
  mode http
  bind 127.0.0.1:${bind}
  option forwardfor
  http-request set-header X-Forwarded-Proto ${proto}
  default_backend back
`;
  writeFileSync(
    join(folder, "haproxy.cfg"),
    `global
  nbthread 1
  maxconn 4000
  ssl-default-bind-ciphersuites ${SUITE}
defaults
  timeout connect 5s
  timeout client 60s
  timeout server 60s
${front("plain", http, "http")}${front("tls", `${https} ssl crt ${pair.both}`, "https")}backend back
  mode http
  server one 127.0.0.1:${backend}
listen tcp
  mode tcp
  bind 127.0.0.1:${tcp}
  server one 127.0.0.1:${backend}
`,
  );
  const child = spawn("haproxy", ["-db", "-f", join(folder, "haproxy.cfg")], { stdio: "ignore" });
  await listens(tcp);
  return { child, pid: child.pid, http, https, tcp };
};

const startNginxPeer = async (folder, backend, pair) => {
  const [http, https] = [await freePort(), await freePort()];
  const server = (listen, tls) => `server { listen 127.0.0.1:${listen} backlog=4096; ${tls}
  location / { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering on; proxy_max_temp_file_size 0;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; } }
`;
  const servers = `upstream back { server 127.0.0.1:${backend}; keepalive 256; keepalive_requests 100000000; }
${server(http, "")}${server(`${https} ssl`, `ssl_certificate ${pair.cert}; ssl_certificate_key ${pair.key}; ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Ciphersuites ${SUITE}; ssl_session_cache off;`)}`;
  return { ...(await startNginx(folder, "nginx", servers, https)), http, https };
};

/** One of our own programs: says its ports when it is ready. */
const startNode = (role, settings) =>
  new Promise((resolve, reject) => {
    const child = fork(new URL("./node-peer.mjs", import.meta.url), [role, JSON.stringify(settings)]);
    child.once("message", (ports) => resolve({ child, pid: child.pid, ...ports }));
    child.once("exit", (code) => reject(new Error(`${role} ended with ${code}`)));
  });

/** Everybody who can be started here, by name. */
export const startPeers = async (folder, backend, pair) => {
  const settings = { backend, key: pair.key, cert: pair.cert };
  const peers = {
    backlot: await startNode("backlot", settings),
    careful: await startNode("careful", settings),
    "http-proxy": await startNode("bare", settings),
  };
  if (isInstalled("haproxy")) peers.haproxy = await startHaproxy(folder, backend, pair);
  peers.nginx = await startNginxPeer(folder, backend, pair);
  return peers;
};
