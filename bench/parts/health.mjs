// From "the port starts listening" to `up` in the API. The listening is done here, on the address that Backlot itself names.
import { createServer } from "node:net";
import { startCloud, until } from "./cloud.mjs";
import { line, median } from "./figures.mjs";
import { temporaryFolder } from "./folder.mjs";

const nodes = 12;
/** The first node's port; the others follow. */
const firstPort = 18_000;
const budgetMs = 1_000;

const listen = (host, port) =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.on("error", () => {}).end());
    server.once("error", reject);
    server.listen(port, host, () => resolve(server));
  });

export const upRows = async () => {
  const cloud = await startCloud({ runtime: "process", state: temporaryFolder(), args: ["--on-exit", "stop"] });
  const body = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Bench-only-1", private_ip: true };
  const { id, ipv4 } = await cloud.ask("POST", "/v4/cloud/instances", { body });
  await until("the instance runs", async () => (await cloud.ask("GET", `/v4/cloud/instances/${id}`)).status === "running");
  const address = ipv4.find((each) => each.startsWith("192.168."));
  const balancer = await cloud.ask("POST", "/v4/balancers", { body: { region: "us-east", label: "bench" } });
  const ports = Array.from({ length: nodes }, (_, at) => firstPort + at);
  const members = ports.map((port) => ({ label: `node-${port}`, address: `${address}:${port}` }));
  const config = await cloud.ask("POST", `/v4/balancers/${balancer.id}/configs`, { body: { port: 8080, check: "connection", nodes: members } });
  const path = `/v4/balancers/${balancer.id}/configs/${config.id}/nodes`;
  await until("every node measured down", async () => (await cloud.ask("GET", path)).data.every(({ status }) => status === "DOWN"));

  const upMs = [];
  for (const { id: node, address: at } of (await cloud.ask("GET", path)).data) {
    // Whatever the checks' rhythm is, the port begins at any moment of it.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 500));
    const port = Number(at.split(":")[1]);
    const place = await cloud.ask("GET", `/_backlot/dial?address=${address}&port=${port}`);
    const server = await listen(place.host, place.port);
    const startMs = performance.now();
    await until(`node ${at} up`, async () => (await cloud.ask("GET", `${path}/${node}`)).status === "UP");
    upMs.push(performance.now() - startMs);
    server.close();
  }
  await cloud.ask("DELETE", `/v4/balancers/${balancer.id}`);
  await cloud.ask("DELETE", `/v4/cloud/instances/${id}`);
  await cloud.close();
  const what = "a port starts listening -> node `UP` in the API";
  return [line({ what, figure: median(upMs), worst: Math.max(...upMs), unit: "ms", budget: budgetMs })];
};
