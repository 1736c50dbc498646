// Who may import whom (README "How it is built"). `npm run boundaries` fails when nothing was analysed: see scripts in package.json.
const room = (name) => `^src/${name}/`;
const door = "^src/index\\.ts$";
const only = (name, allowed, comment, also = []) => ({
  name: `${name}-imports`,
  comment,
  severity: "error",
  from: { path: room(name) },
  to: { path: "^src/", pathNot: [room(name), ...allowed.map(room), ...also].join("|") },
});
const home = (name, packages, where) => ({
  name: `home-of-${name}`,
  comment: `${packages} has one home: ${where}`,
  severity: "error",
  from: { path: "^src/", pathNot: where },
  to: { path: `node_modules/(${packages})/` },
});

module.exports = {
  forbidden: [
    only("kernel", [], "The kernel knows nobody."),
    only("config", ["kernel"], "config knows the kernel only."),
    only("store", ["kernel"], "The store knows no rows, no HTTP."),
    only("runtime", ["kernel"], "Drivers know no rows, no HTTP."),
    only("balancer", ["kernel"], "The plane is told; it does not ask."),
    only("resources", ["kernel", "store"], "Resources decide; they do not act."),
    only("dns", ["kernel"], "The name server is told; it does not ask."),
    only("http", ["kernel", "resources"], "http -> resources."),
    only("reconcile", ["kernel", "resources", "store", "runtime", "balancer", "dns"], "Loops read rows and drive."),
    only("demo", ["kernel", "config"], "The demo opens the library's door and then talks HTTP, like any user.", [door]),
    only("doctor", ["kernel", "config", "store", "runtime", "balancer", "dns"], "The doctor looks, and changes nothing.", ["^src/clean\\.ts$"]),
    only("cli", ["kernel", "config", "demo"], "The command line opens the library's door, or talks to a running cloud over HTTP.", [door]),
    home("express", "express", "^src/http/"),
    home("oauth", "@node-oauth", "^src/http/oauth/"),
    home("dockerode", "dockerode|tar-stream", "^src/runtime/docker/"),
    home("dns-packet", "dns-packet", "^src/dns/"),
    home("dnsz", "dnsz", "^src/resources/domains/"),
    home("lowdb", "lowdb", "^src/store/"),
    home("http-proxy", "http-proxy", "^src/balancer/"),
    home("node-forge", "node-forge", "^src/kernel/certificate"),
    home("commander", "commander", "^src/cli"),
    { name: "no-circular", severity: "error", from: { path: "^src/" }, to: { circular: true, viaOnly: { dependencyTypesNot: ["type-only"] } } },
    { name: "no-unresolved", severity: "error", from: { path: "^src/" }, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "types", "default"], extensions: [".ts", ".js"] },
  },
};
