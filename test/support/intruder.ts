import type Docker from "dockerode";
import { run } from "./docker.js";

export interface Target {
  host: string;
  port: number;
}

/**
 * What whoever is root in a guest can say to a place with no right but a guest's: over TCP and UDP, as the routes say, out of a device that they
 * did not choose, and around the routes (SO_DONTROUTE with a device: as if the place were a neighbour there, see ip(7) and socket(7)).
 */
const program = `
import json, socket, sys, threading
devices = [None] + [name for _, name in socket.if_nameindex()]
opened = []
def try_one(host, port, kind, device, around):
    try:
        place = socket.getaddrinfo(host, port, type=kind)[0]
        box = socket.socket(place[0], kind)
        box.settimeout(2)
        if device: box.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        if around: box.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
        box.connect(place[4])
        if kind == socket.SOCK_DGRAM:
            box.send(b"knock")
            box.recv(100)
        opened.append(f"{'udp' if kind == socket.SOCK_DGRAM else 'tcp'} {host} port {port}{' by ' + device if device else ''}{' around the routes' if around else ''}")
    except OSError:
        pass
tries = [threading.Thread(target=try_one, args=(host, port, kind, device, around))
    for host, port in json.loads(sys.argv[1]) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM) for device in devices for around in (False, True)]
for one in tries: one.start()
for one in tries: one.join()
print(json.dumps(sorted(opened)))
`;

/** Every way by which a guest opened a connection to one of these places, or was answered a datagram, in words. */
export const waysInto = async (guest: Docker.Container, places: readonly Target[]): Promise<string[]> => {
  const said = await run(guest, ["python3", "-c", program, JSON.stringify(places.map(({ host, port }) => [host, port]))]);
  const line = said.text.trim().split("\n").pop() ?? "";
  if (!line.startsWith("[")) throw new Error(`the intruder failed: ${said.text}`);
  return JSON.parse(line);
};

/** A program for a guest: takes connections and answers datagrams at an address and port, and nowhere else. */
export const openServer = (host: string, port: number): string => `
import socket, threading
listener = socket.create_server(("${host}", ${port}))
box = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
box.bind(("${host}", ${port}))
def datagrams():
    while True: box.sendto(*box.recvfrom(100))
threading.Thread(target=datagrams, daemon=True).start()
while True: listener.accept()[0].close()
`;
