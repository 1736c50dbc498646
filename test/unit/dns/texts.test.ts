import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { pointingLines, type Resolving, undoingLines } from "#backlot/cli/dns-texts.js";

const place = { address: "127.0.0.1", port: 4753 };
const commands = (lines: string[]): string[] => lines.filter((line) => line.startsWith("  ")).map((line) => line.trim());
const folder = mkdtempSync(join(tmpdir(), "backlot-dns-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Types the commands, with `sudo` gone and `/etc` moved into a folder of ours; those that need a service are left out. */
const typed = (lines: string[]): void => {
  for (const command of commands(lines).filter((each) => !/systemctl|^dig|^--dns|cp -L/.test(each))) {
    execFileSync("sh", ["-ec", command.replaceAll("sudo ", "").replaceAll("/etc/", `${folder}/`)], { stdio: "pipe" });
  }
};

describe("backlot dns", () => {
  it.each<[Resolving, string, string]>([
    ["systemd-resolved", "systemd/resolved.conf.d/backlot.conf", "[Resolve]\nDNS=127.0.0.1:4753\nDomains=~backlot.test ~one.test ~two.test\n"],
    ["dnsmasq", "dnsmasq.d/backlot.conf", "server=/backlot.test/127.0.0.1#4753\nserver=/one.test/127.0.0.1#4753\nserver=/two.test/127.0.0.1#4753\n"],
    ["macos", "resolver/two.test", "# Backlot\nnameserver 127.0.0.1\nport 4753\n"],
    ["resolv.conf", "resolv.conf", "nameserver 127.0.0.1\n"],
  ])("%s: the commands write the file as they are typed", (how, file, content) => {
    typed(pointingLines(how, place, ["one.test", "two.test"], ["192.0.2.53"]));
    expect(readFileSync(join(folder, file), "utf8")).toBe(content);
  });

  it("resolv.conf knows no ports: it says how Backlot is to be started, and who it is to ask", () => {
    const text = pointingLines("resolv.conf", place, [], ["192.0.2.53", "192.0.2.54"]).join("\n");
    expect(text).toContain("--dns-port 53 --dns-forward --dns-upstream 192.0.2.53,192.0.2.54");
    expect(text).toMatch(/cp -L \/etc\/resolv\.conf (\S+)/);
  });

  it.each<Resolving>(["systemd-resolved", "dnsmasq", "macos", "resolv.conf"])("%s: undoing names the file that pointing wrote", (how) => {
    const files = (lines: string[]) => [...lines.join("\n").matchAll(/\/etc\/[\w./-]+/g)].map(([path]) => path.replace(/[^/]*\.test$/, ""));
    const written = files(pointingLines(how, place, ["one.test"], []));
    const removed = files(undoingLines(how));
    expect(removed.length).toBeGreaterThan(0);
    for (const path of removed) expect(written).toContain(path);
  });

  it("a name that is no plain name never gets into a command", () => {
    const text = pointingLines("systemd-resolved", place, ["x'; touch /tmp/oops; '.test", "ok.test"], []).join("\n");
    expect(text).toContain("ok.test");
    expect(text).not.toContain("oops");
  });
});
