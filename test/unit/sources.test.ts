import { expect, it } from "vitest";
import { routes, shapes } from "#backlot/resources/index.js";

const wireName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** By shape, the members that name this source; docs/api.md shows it. */
const saidBy = (source: string): Record<string, string[]> =>
  Object.fromEntries(
    Object.entries(shapes)
      .map(([shape, fields]): [string, string[]] => [
        shape,
        Object.entries(fields)
          .filter(([, { options }]) => options.source === source)
          .map(([name]) => wireName(name))
          .sort(),
      ])
      .filter(([, names]) => names.length > 0),
  );

it("the members that the service description states are marked as its own, and no others", () => {
  // Sections 2.1 to 2.8 of the description; a script's id is where `script_id` comes from.
  expect(saidBy("description")).toEqual({
    Balancer: ["client_conn_throttle", "id", "label", "region"],
    Config: ["check", "id", "label", "nodes_status", "port", "protocol", "ssl_cert", "ssl_key"],
    Node: ["address", "label"],
    Instance: ["booted", "id", "image", "label", "region", "root_pass", "script_id", "type"],
    Address: ["cloud_id", "public", "type"],
    Volume: ["size"],
    Record: ["name", "target", "type"],
    Image: ["deprecated", "id", "vendor"],
    Type: ["id"],
    Region: ["id"],
    Script: ["id"],
  });
});

it("what neither the description nor the public API has is said to be ours", () => {
  expect(saidBy("ours")).toEqual({ Config: ["listener"], User: ["password"] });
  const inBodies = routes.flatMap(({ path, body }) =>
    Object.entries(body?.sources ?? {}).flatMap(([name, source]) => (source === "ours" ? [`${path} ${wireName(name)}`] : [])),
  );
  expect([...new Set(inBodies)]).toEqual(["/v4/domains/import zone_file", "/v4/account/users password", "/v4/account/users/:username password"]);
});
