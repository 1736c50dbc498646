// A program of ours as a peer: Backlot's plane (both lanes or the careful one alone), or http-proxy as its README shows it.
import { readFileSync } from "node:fs";
import http from "node:http";
import httpProxy from "http-proxy";
import { openPlane } from "#backlot/balancer/worker-host.js";

const [role, text] = process.argv.slice(2);
const { backend, key, cert } = JSON.parse(text);

const planePorts = async (fastLane) => {
  const plane = openPlane({ fastLane, onProblem: (reason) => console.error(reason) });
  const nodes = [
    { id: 1, label: "one", address: "192.168.128.2:80", endpoint: { host: "127.0.0.1", port: backend }, weight: 50, mode: "accept", up: true },
  ];
  const common = { address: "127.0.0.1", port: 0, algorithm: "roundrobin", stickiness: "none", checkPassive: true, nodes };
  const bounds = { balancer: 1, connThrottle: 0, udpSessThrottle: 0, proxyProtocol: "none" };
  const open = async (protocol) => {
    const tls = protocol === "https" ? { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8"), cipherSuite: "recommended" } : null;
    return (await plane.apply(protocol, { ...common, ...bounds, protocol, tls })).port;
  };
  return { http: await open("http"), https: await open("https"), tcp: await open("tcp") };
};

const barePorts = () =>
  new Promise((resolve) => {
    const proxy = httpProxy.createProxyServer({ target: `http://127.0.0.1:${backend}`, xfwd: true });
    proxy.on("error", (_error, _req, res) => res.destroy?.());
    const server = http.createServer((req, res) => proxy.web(req, res));
    server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => resolve({ http: server.address().port }));
  });

process.send(role === "bare" ? await barePorts() : await planePorts(role === "backlot"));
process.once("disconnect", () => process.exit());
