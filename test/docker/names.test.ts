import { createSocket } from "node:dgram";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { encode } from "dns-packet";
import type Docker from "dockerode";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { askName, dataOf, read } from "../support/dns.js";
import { containerOf, describeDocker, run } from "../support/docker.js";
import { until } from "../support/until.js";

describeDocker("names, asked from inside an instance", () => {
  let cloud: TestCloud;
  let owner: string;
  let first: Json;
  let second: Json;
  let guest: Docker.Container;
  let closeUpstream: () => void;
  const asked: string[] = [];

  /** The resolver of "the outside", which knows one address for everything. */
  const upstream = async (): Promise<string> => {
    const socket = createSocket("udp4");
    socket.on("message", (bytes, from) => {
      const query = read(bytes);
      const [question] = query.questions ?? [];
      asked.push(`${question?.name} ${question?.type}`);
      const answers = question?.type === "A" ? [{ type: "A" as const, name: question.name, ttl: 5, data: "203.0.113.99" }] : [];
      socket.send(encode({ type: "response", id: query.id, flags: 0x0180, questions: query.questions, answers }), from.port, from.address);
    });
    await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
    closeUpstream = () => socket.close();
    return `127.0.0.1:${socket.address().port}`;
  };

  const create = async (label: string, more: object = {}): Promise<Json> => {
    const body = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", private_ip: true, label, ...more };
    const made = await cloud.api.post("/v4/cloud/instances", body);
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    return made.body;
  };
  const running = (id: number) =>
    until(async () => (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.status === "running", {
      withinMs: 60_000,
      what: `instance ${id} running`,
    });
  const box = async (id: number): Promise<Docker.Container> => {
    const container = await containerOf(owner, id);
    if (!container) throw new Error(`no container of instance ${id}`);
    return container;
  };
  const inside = async (...command: string[]): Promise<string> => (await run(guest, command)).text.trim();

  beforeAll(async () => {
    cloud = await startCloud({ runtime: "docker", dnsUpstream: await upstream() });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
    first = await create("asking");
    second = await create("Serving.web");
    await Promise.all([running(first.id), running(second.id)]);
    guest = await box(first.id);
    const server = await (await box(second.id)).exec({ Cmd: ["python3", "-m", "http.server", "80", "--directory", "/etc/backlot"] });
    await server.start({ Detach: true });
    const { body: domain } = await cloud.api.post("/v4/domains", { type: "master", domain: "example.test", soa_email: "a@b.test" });
    const add = (body: object) => cloud.api.post(`/v4/domains/${domain.id}/records`, body);
    await add({ type: "A", name: "www", target: second.ipv4[0] });
    await add({ type: "CNAME", name: "alias", target: "www" });
    await add({ type: "A", name: "private", target: second.ipv4[1] });
  });
  afterAll(async () => {
    const { data } = (await cloud.api.get("/v4/cloud/instances")).body as { data: Array<{ id: number }> };
    for (const { id } of data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 30_000, what: "no instance" });
    await cloud.close();
    closeUpstream?.();
  });

  test("curl by name reaches the instance that the record names, and getent agrees", async () => {
    await until(async () => (await inside("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", `http://${second.ipv4[0]}/`)) === "200", {
      what: "the server",
    });
    for (const host of ["www.example.test", "alias.example.test", "private.example.test", "serving.web.instances.backlot.test"]) {
      expect(await inside("curl", "-sS", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", `http://${host}/`), host).toBe("200");
    }
    expect(await inside("getent", "hosts", "www.example.test")).toMatch(new RegExp(`^${second.ipv4[0]}\\s+www\\.example\\.test$`));
    expect((await run(guest, ["getent", "hosts", "nothing.example.test"])).exitCode).toBe(2);
  });

  test("a record that is made now is there now", async () => {
    const [{ id }] = (await cloud.api.get("/v4/domains")).body.data;
    await cloud.api.post(`/v4/domains/${id}/records`, { type: "A", name: "now", target: "198.51.100.77" });
    expect(await inside("getent", "hosts", "now.example.test")).toMatch(/^198\.51\.100\.77/);
  });

  test("names beyond ours are looked up for it, by the resolver that the setting names", async () => {
    expect(await inside("getent", "ahostsv4", "outside.example.org")).toMatch(/^203\.0\.113\.99/);
    expect(asked).toContain("outside.example.org A");
    expect(asked.join(" ")).not.toContain("example.test");
  });

  test("only guests have names looked up: this machine is refused, on the guests' address too", async () => {
    const { guests, address, port } = (await cloud.api.get("/_backlot/dns")).body;
    expect(guests.addresses.length).toBe(2);
    const before = asked.length;
    expect((await askName({ address, port }, "outside.example.org", "A", { flags: 0x0100 })).rcode).toBe("REFUSED");
    const own = Object.values(networkInterfaces()).flat();
    for (const gateway of guests.addresses as string[]) {
      expect(own.some((each) => each?.address === gateway)).toBe(true);
      const place = { address: gateway, port: 53 };
      expect(dataOf((await askName(place, "www.example.test", "A")).answers)).toEqual([second.ipv4[0]]);
    }
    expect(asked.length).toBe(before);
  });

  test("a server on this machine's own address is reached by name from inside: what a balancer there would be", async () => {
    const [gateway] = (await cloud.api.get("/_backlot/dns")).body.guests.addresses as string[];
    const server = createServer((_request, response) => void response.end("from this machine"));
    await new Promise<void>((resolve) => server.listen(0, gateway, resolve));
    try {
      const [{ id }] = (await cloud.api.get("/v4/domains")).body.data;
      await cloud.api.post(`/v4/domains/${id}/records`, { type: "A", name: "machine", target: gateway });
      const { port } = server.address() as AddressInfo;
      expect(await inside("curl", "-sS", "-m", "5", `http://machine.example.test:${port}/`)).toBe("from this machine");
    } finally {
      server.close();
    }
  });

  test("the engine was told, no secret was, and the capabilities say it is real", async () => {
    const { HostConfig } = await guest.inspect();
    const { guests } = (await cloud.api.get("/_backlot/dns")).body;
    expect(HostConfig.Dns?.slice(0, 2).sort()).toEqual([...guests.addresses].sort());
    const { rows } = (await cloud.api.get("/_backlot/capabilities")).body;
    expect(rows.find(({ subject }: Json) => subject === "names: instances use Backlot's name server")).toMatchObject({ real: true });
    expect(rows.find(({ subject }: Json) => subject === "names: a balancer's name inside an instance")).toMatchObject({ real: false });
  });

  test("a new instance of another region resolves at its first boot, and an old one after a restart of Backlot", async () => {
    const other = await create("elsewhere", { region: "eu-west" });
    await running(other.id);
    const text = (await run(await box(other.id), ["getent", "hosts", "www.example.test"])).text;
    expect(text).toContain(second.ipv4[0]);
    await cloud.close({ machines: "keep", keepState: true });
    cloud = await startCloud({ ...cloud.config, state: cloud.state });
    expect(await inside("getent", "hosts", "www.example.test")).toContain(second.ipv4[0]);
  });
});
