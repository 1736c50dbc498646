import { randomBytes } from "node:crypto";
import { backEnd, takeTurns } from "./page.js";
import { type Balancer, type BalancerConfig, expectThat, fact, type Instance, type Stage, type Step, waitFor } from "./stage.js";
import { type Door, visit } from "./visitor.js";

const region = "us-east";
/** The shipped public script "Hello web". */
const helloWeb = 1;
const labels = ["demo-web-1", "demo-web-2"] as const;
const visits = 10;

/** Two kinds of characters and more than any strength rule asks; nobody is meant to log in. */
const strongPassword = (): string => `Aa1-${randomBytes(24).toString("base64url")}`;

export const readConfig = (stage: Stage): Promise<BalancerConfig> =>
  stage.cloud.get(`/v4/balancers/${fact(stage.facts.balancer, "balancer").id}/configs/${fact(stage.facts.configId, "config")}`);

export const counts = (config: BalancerConfig): string => `up ${config.nodes_status.up}, down ${config.nodes_status.down}`;

/** Waits until the config listens somewhere else than `before` (a port; undefined: anywhere) and answers that door. */
export const openDoor = async (stage: Stage, before?: number): Promise<Door> => {
  const config = await waitFor(stage, {
    expected: "an open listener",
    withinMs: 10_000,
    ask: () => readConfig(stage),
    holds: ({ listener }) => listener.status === "failed" || (listener.status === "open" && listener.port !== before),
    tell: ({ listener }) => JSON.stringify(listener),
  });
  const { status, address, port, reason } = config.listener;
  expectThat(status === "open", `a listener on port ${config.port}`, `it could not listen: ${reason}`);
  return { address: address ?? "", port: port ?? 0, hostname: fact(stage.facts.balancer, "balancer").hostname };
};

const createInstance = async (stage: Stage, label: string): Promise<Instance> => {
  const body = { type: "g6-standard-1", region, image: "cloud/debian12", root_pass: strongPassword(), label, booted: false, script_id: helloWeb };
  const { id } = await stage.cloud.post<Instance>("/v4/cloud/instances", body);
  return waitFor(stage, {
    expected: `${label} created and offline`,
    withinMs: stage.bootWithinMs,
    ask: () => stage.cloud.get<Instance>(`/v4/cloud/instances/${id}`),
    holds: ({ status }) => status === "offline",
    tell: ({ status }) => `status ${status}`,
  });
};

/** Why instances do not start, for a failed wait: their last failed events, as the API tells them. */
const failures = async (stage: Stage): Promise<string> => {
  const { data } = await stage.cloud.get<{ data: Array<{ status: string; action: string; message?: string | null }> }>("/v4/account/events");
  const failed = data
    .filter((event) => event.status === "failed")
    .map((event) => `${event.action} failed: ${event.message ?? "no reason was given"}`);
  return failed.length === 0 ? "" : `; ${failed.join("; ")}`;
};

export const preparation: readonly Step[] = [
  {
    title: "a balancer",
    run: async (stage) => {
      const balancer = await stage.cloud.post<Balancer>("/v4/balancers", { region, label: "demo", client_conn_throttle: 0 });
      stage.facts.balancer = balancer;
      return `${balancer.label} on ${balancer.ipv4}`;
    },
  },
  {
    title: "a config on port 80 that really listens",
    run: async (stage) => {
      const path = `/v4/balancers/${fact(stage.facts.balancer, "balancer").id}/configs`;
      const config = await stage.cloud.post<BalancerConfig>(path, { label: "web", port: 80, protocol: "http", check: "connection" });
      stage.facts.configId = config.id;
      const door = await openDoor(stage);
      stage.facts.plainDoor = door;
      const { status } = await visit(door);
      expectThat(status === 503, "503 while no node is up", `${status}`);
      return `${door.address}:${door.port}, 503 as long as it has no node`;
    },
  },
  {
    title: "two instances, created unbooted",
    run: async (stage) => {
      stage.facts.instances = await Promise.all(labels.map((label) => createInstance(stage, label)));
      return stage.facts.instances.map(({ label, status }) => `${label} ${status}`).join(", ");
    },
  },
  {
    title: "a private IPv4 address each",
    run: async (stage) => {
      for (const instance of stage.facts.instances) {
        const given = await stage.cloud.post<{ address: string }>("/v4/networking/ips", { type: "ipv4", public: false, cloud_id: instance.id });
        expectThat(given.address.startsWith("192.168."), "an address that begins with 192.168", given.address);
        instance.privateAddress = given.address;
      }
      return stage.facts.instances.map(({ privateAddress }) => privateAddress).join(", ");
    },
  },
  {
    title: "both boot, a node each: nobody listens yet",
    run: async (stage) => {
      await Promise.all(stage.facts.instances.map(({ id }) => stage.cloud.post(`/v4/cloud/instances/${id}/boot`)));
      const path = `/v4/balancers/${fact(stage.facts.balancer, "balancer").id}/configs/${fact(stage.facts.configId, "config")}/nodes`;
      await Promise.all(
        stage.facts.instances.map(({ label, privateAddress }) => stage.cloud.post(path, { label, address: `${privateAddress}:${stage.nodePort}` })),
      );
      const config = await readConfig(stage);
      expectThat(config.nodes_status.down === 2 && config.nodes_status.up === 0, "up 0, down 2 right after adding", counts(config));
      return counts(config);
    },
  },
  {
    title: "both back ends listen, and health sees it",
    run: async (stage) => {
      const read = async () => {
        const config = await readConfig(stage);
        return { config, why: config.nodes_status.up === 2 ? "" : await failures(stage) };
      };
      const { config } = await waitFor(stage, {
        expected: "up 2, down 0",
        withinMs: stage.bootWithinMs,
        ask: read,
        // A failed boot does not heal while we look: waiting on would only hide its reason.
        holds: ({ config: seen, why }) => seen.nodes_status.up === 2 || why !== "",
        tell: (seen) => `${counts(seen.config)}${seen.why}`,
      });
      expectThat(config.nodes_status.up === 2 && config.nodes_status.down === 0, "up 2, down 0", `${counts(config)}${await failures(stage)}`);
      return counts(config);
    },
  },
  {
    title: `${visits} requests, answered by both in turn`,
    run: async (stage) => {
      const door = fact(stage.facts.plainDoor, "listener");
      const seen: string[] = [];
      while (seen.length < visits) {
        const page = await visit(door);
        expectThat(page.status === 200, "200", `${page.status} ${page.body.slice(0, 200)}`);
        const served = backEnd(page.body);
        const instance = stage.facts.instances.find(({ id }) => id === served?.id);
        expectThat(
          instance !== undefined && served?.address === instance.privateAddress,
          "a page that names one of our instances",
          page.body.slice(0, 200),
        );
        seen.push(served?.label ?? "");
      }
      expectThat(takeTurns(seen, labels[0], labels[1]), `${labels.join(" and ")} in turn`, seen.join(", "));
      return labels.map((label) => `${label} ${seen.filter((one) => one === label).length}`).join(", ");
    },
  },
];
