import type { Answer, Api, Json } from "../support/cloud.js";
import type { Kind, Ledger } from "./ledger.js";
import type { Chance } from "./seed.js";

export interface Pair {
  cert: string;
  key: string;
  /** SHA-1, colon separated, as the API shows it. */
  fingerprint: string;
}

interface WritersOptions {
  api: Api;
  ledger: Ledger;
  chance: Chance;
  pairs: readonly Pair[];
  /** Begins the labels of this run of the writers. */
  run: string;
  /** Called after each acknowledgement. */
  onAcknowledged(): void;
  /** Instances one writer may have. */
  mostInstances: number;
  signal: AbortSignal;
}

const password = "Curtain-7-Call";
const ports = [21_080, 21_081, 21_443];

/** A refusal that only says that something else is under way, or has been done already, loses nothing; anything else than that or success is a defect. */
const isOrdinary = ({ status, body }: Answer): boolean => status === 200 || (status === 400 && Array.isArray(body?.errors));

/** Clients that never wait for what they asked to come true. Each has things of its own; ends when the cloud is gone or `signal` says so. */
export const write = async (writer: string, options: WritersOptions): Promise<void> => {
  const { api, ledger, chance, pairs, run, mostInstances, signal } = options;
  let made = 0;
  const fresh = (): string => `${writer}-${run}-${made++}`;
  const beginning = `${writer}-`;
  const have = (kind: Kind) => ledger.known(kind, beginning);

  /** `would`: all that the request changes. Throws when the cloud is gone. */
  const ask = async (send: () => Promise<Answer>, would: ReadonlyArray<[Kind, string, Readonly<Record<string, Json>> | null]>): Promise<void> => {
    for (const change of would) ledger.asked(...change);
    const answer = await send();
    if (!isOrdinary(answer)) throw new Error(`an answer that nobody expected: ${answer.status} ${JSON.stringify(answer.body)}`);
    const id = answer.body?.id;
    for (const [index, [kind, label]] of would.entries()) {
      if (answer.status === 200) ledger.acknowledged(kind, label, index === 0 ? id : undefined);
      else ledger.refused(kind, label);
    }
    if (answer.status === 200) options.onAcknowledged();
  };

  const balancer = async (): Promise<void> => {
    const mine = have("balancer");
    const step = chance.below(4);
    if (mine.length === 0 || (mine.length < 3 && step === 0)) {
      const label = fresh();
      await ask(
        () => api.post("/v4/balancers", { label, region: "us-east", client_udp_sess_throttle: 1 }),
        [["balancer", label, { client_udp_sess_throttle: 1 }]],
      );
      return;
    }
    const { label, id } = chance.oneOf(mine);
    if (step === 1 && mine.length > 1) {
      const configs = have("config").filter(({ is }) => is.balancer_id === id);
      await ask(
        () => api.del(`/v4/balancers/${id}`),
        [["balancer", label, null], ...configs.map((config): [Kind, string, null] => ["config", config.label, null])],
      );
      return;
    }
    const throttle = chance.below(20);
    await ask(
      () => api.put(`/v4/balancers/${id}`, { client_udp_sess_throttle: throttle }),
      [["balancer", label, { client_udp_sess_throttle: throttle }]],
    );
  };

  const config = async (): Promise<void> => {
    const balancers = have("balancer");
    if (balancers.length === 0) return balancer();
    const mine = have("config");
    const { cert, key, fingerprint } = chance.oneOf(pairs);
    const secure = { protocol: "https", ssl_fingerprint: fingerprint };
    const pair = { protocol: "https", ssl_cert: cert, ssl_key: key };
    if (mine.length === 0 || (mine.length < 4 && chance.below(3) === 0)) {
      const { id } = chance.oneOf(balancers);
      const port = chance.oneOf(ports.filter((one) => !mine.some(({ is }) => is.balancer_id === id && is.port === one)).concat(21_999));
      const label = fresh();
      await ask(() => api.post(`/v4/balancers/${id}/configs`, { label, port, ...pair }), [["config", label, { balancer_id: id, port, ...secure }]]);
      return;
    }
    const { label, id, is } = chance.oneOf(mine);
    const path = `/v4/balancers/${is.balancer_id}/configs/${id}`;
    const step = chance.below(5);
    if (step === 0) await ask(() => api.del(path), [["config", label, null]]);
    else if (step === 1)
      await ask(() => api.put(path, { protocol: "http" }), [["config", label, { balancer_id: is.balancer_id, port: is.port, protocol: "http" }]]);
    else await ask(() => api.put(path, pair), [["config", label, { balancer_id: is.balancer_id, port: is.port, ...secure }]]);
  };

  const instance = async (): Promise<void> => {
    const mine = have("instance");
    if (mine.length === 0 || (mine.length < mostInstances && chance.below(3) === 0)) {
      const label = fresh();
      const booted = chance.below(3) > 0;
      const wanted = { label, region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: password, private_ip: true, booted };
      const script = chance.below(2) === 0 ? { script_id: 1 } : {};
      await ask(() => api.post("/v4/cloud/instances", { ...wanted, ...script }), [["instance", label, { status: booted ? "running" : "offline" }]]);
      return;
    }
    const { label, id } = chance.oneOf(mine);
    const path = `/v4/cloud/instances/${id}`;
    const verb = chance.oneOf(["boot", "boot", "reboot", "shutdown", "delete"]);
    if (verb === "delete") {
      const volumes = have("volume").filter(({ is }) => is.cloud_id === id);
      await ask(
        () => api.del(path),
        [["instance", label, null], ...volumes.map((volume): [Kind, string, Json] => ["volume", volume.label, { cloud_id: null }])],
      );
    } else await ask(() => api.post(`${path}/${verb}`, {}), [["instance", label, { status: verb === "shutdown" ? "offline" : "running" }]]);
  };

  const volume = async (): Promise<void> => {
    const mine = have("volume");
    if (mine.length === 0 || (mine.length < 3 && chance.below(4) === 0)) {
      const label = fresh();
      await ask(() => api.post("/v4/volumes", { label, region: "us-east", size: 10 }), [["volume", label, { cloud_id: null }]]);
      return;
    }
    const { label, id, is } = chance.oneOf(mine);
    const path = `/v4/volumes/${id}`;
    if (is.cloud_id !== null) return ask(() => api.post(`${path}/detach`, {}), [["volume", label, { cloud_id: null }]]);
    const instances = have("instance");
    if (instances.length === 0 || chance.below(4) === 0) return ask(() => api.del(path), [["volume", label, null]]);
    const { id: cloud } = chance.oneOf(instances);
    await ask(() => api.post(`${path}/attach`, { cloud_id: cloud }), [["volume", label, { cloud_id: cloud }]]);
  };

  while (!signal.aborted) await chance.oneOf([balancer, config, config, instance, instance, volume, volume])();
};
