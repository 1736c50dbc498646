"""The relay of one region's network: carries connections and datagrams of one Backlot to that network's addresses, and to no others.

Runs in a container of its own (src/runtime/docker/relay-container.ts). A client says one line, `SECRET VERB ADDRESS PORT`, and is
answered one byte; after `+` what follows is the connection itself:

    +  connected        R  refused        U  not reachable        T  timed out        D  not an address of this network        F  another failure

Verbs: `tcp`; `udp`, whose datagrams travel as two bytes of length (big endian) and the datagram; `hold`, which connects to nothing and
tells the client by its end that the relay is gone. Who does not know the secret is not answered. A relay that nobody holds for a minute is
a dead Backlot's, and ends.

usage: backlot-relay.py SUBNET PORT SECRET_FILE [SECONDS_UNHELD]
"""
import asyncio, errno, hmac, ipaddress, resource, socket, struct, sys

LONGEST_LINE = 200
GREETING_SECONDS = 5
MOST_STRANGERS = 512  # connections that have not said the secret yet; the oldest makes room
MOST_UNSENT = 65_536  # bytes of datagrams that wait for their client; more is dropped, as datagrams are
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # struct linger, socket(7)
ANSWERS = {errno.ECONNREFUSED: b"R", errno.EHOSTUNREACH: b"U", errno.ENETUNREACH: b"U", errno.ETIMEDOUT: b"T"}

subnet = ipaddress.ip_network(sys.argv[1])
gateway = subnet.network_address + 1  # the engine's machine itself, with whatever listens there
port = int(sys.argv[2])
with open(sys.argv[3], "rb") as file:
    secret = file.read().strip()
unheld_seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 60
strangers = {}
holders = set()
farewell = None
loop = asyncio.new_event_loop()


def held_by(client, holds):
    """Whoever starts it holds it at once, and again after a restart."""
    global farewell
    holders.add(client) if holds else holders.discard(client)
    if farewell is not None:
        farewell.cancel()
    farewell = None if holders else loop.call_later(unheld_seconds, loop.stop)


def cut(transport):
    """Ends a connection so that its other end sees that it was broken."""
    held = transport.get_extra_info("socket")
    if held is not None and held.fileno() >= 0:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    transport.abort()


class Side(asyncio.Protocol):
    """One of the two connections that are joined: bytes with back-pressure, a half-close stays one, a broken side breaks the other."""

    transport = other = None
    ended = False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.other.transport.write(data)

    def eof_received(self):
        self.ended = True
        self.other.transport.write_eof()
        if self.other.ended:
            self.transport.close()
            self.other.transport.close()
        return True

    def pause_writing(self):
        if isinstance(self.other, Side):
            self.other.transport.pause_reading()

    def resume_writing(self):
        if isinstance(self.other, Side) and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, error):
        other = self.other
        if other is None or other.transport is None or other.transport.is_closing():
            return
        if error is None and self.ended:
            other.transport.close()
        else:
            cut(other.transport)


class Node(Side):
    def __init__(self, client):
        self.client = client

    def connection_made(self, transport):
        super().connection_made(transport)
        self.other = self.client
        self.client.joined(self)


class Datagrams(asyncio.DatagramProtocol):
    ended = False

    def __init__(self, client):
        self.client = client

    def connection_made(self, transport):
        self.transport = transport
        self.client.joined(self)

    def datagram_received(self, data, address):
        if self.client.transport.get_write_buffer_size() < MOST_UNSENT:
            self.client.transport.write(struct.pack("!H", len(data)) + data)

    def error_received(self, error):
        pass  # nobody listens there (now)


class Client(Side):
    """Says who it is and where it wants to; then it is one side of a connection."""

    def __init__(self):
        self.heard = b""
        self.verb = self.task = None

    def connection_made(self, transport):
        super().connection_made(transport)
        if len(strangers) >= MOST_STRANGERS:
            oldest = next(iter(strangers))
            oldest.known()
            oldest.transport.abort()
        strangers[self] = loop.call_later(GREETING_SECONDS, transport.abort)

    def known(self):
        timer = strangers.pop(self, None)
        if timer is not None:
            timer.cancel()

    def data_received(self, data):
        if self.other is not None and self.verb == "tcp":
            self.other.transport.write(data)
        elif self.other is not None:
            self.pass_on(data)
        else:
            self.heard += data
            if self.verb is None:
                self.greet()
            elif len(self.heard) > MOST_UNSENT:
                self.transport.pause_reading()

    def greet(self):
        line, found, rest = self.heard.partition(b"\n")
        if not found and len(line) <= LONGEST_LINE:
            return
        words = line.split(b" ")
        if not found or len(words) != 4 or not hmac.compare_digest(words[0], secret):
            return self.transport.abort()
        self.known()
        self.heard = rest
        self.verb, address, number = words[1].decode("latin1"), words[2].decode("latin1"), words[3].decode("latin1")
        if self.verb == "hold":
            held_by(self, True)
            return self.transport.write(b"+")
        self.task = loop.create_task(self.reach(address, number))

    async def reach(self, address, number):
        try:
            place = ipaddress.ip_address(address)
            if place not in subnet or place == gateway or not 0 < int(number) < 65536:
                return self.refuse(b"D")
        except ValueError:
            return self.refuse(b"D")
        try:
            if self.verb == "udp":
                await loop.create_datagram_endpoint(lambda: Datagrams(self), remote_addr=(address, int(number)))
            elif self.verb == "tcp":
                await loop.create_connection(lambda: Node(self), address, int(number))
            else:
                self.refuse(b"F")
        except OSError as error:
            self.refuse(ANSWERS.get(error.errno, b"F"))

    def joined(self, other):
        """What follows the greeting may have come before the answer to it."""
        if self.transport.is_closing():
            return other.transport.abort()
        self.transport.write(b"+")
        self.other = other
        heard, self.heard = self.heard, b""
        self.transport.resume_reading()  # first: what is heard may pause it
        if heard:
            self.data_received(heard)
        if self.ended:
            other.transport.write_eof()

    def refuse(self, answer):
        self.transport.write(answer)
        self.transport.close()

    def pass_on(self, data):
        self.heard += data
        at = 0
        while len(self.heard) - at >= 2:
            size = int.from_bytes(self.heard[at : at + 2], "big")
            if len(self.heard) - at - 2 < size:
                break
            self.other.transport.sendto(self.heard[at + 2 : at + 2 + size])
            at += 2 + size
        self.heard = self.heard[at:]

    def eof_received(self):
        if self.verb != "tcp":
            return False
        if self.other is not None:
            return super().eof_received()
        self.ended = True
        return True

    def connection_lost(self, error):
        self.known()
        if self.verb == "hold":
            held_by(self, False)
        if self.task is not None:
            self.task.cancel()
        if self.verb == "udp" and self.other is not None:
            self.other.transport.close()
        else:
            super().connection_lost(error)


async def listen():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held_by(None, False)
    await loop.create_server(Client, "0.0.0.0", port, backlog=1024)


loop.run_until_complete(listen())
loop.run_forever()
