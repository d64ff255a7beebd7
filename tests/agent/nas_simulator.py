"""Simulated NASes that receive CoA requests at port 3799 of a loopback address. The test chooses the answers."""

import hmac
import itertools
import random
import socket
import struct
import threading
from contextlib import contextmanager
from hashlib import md5

from nac.kit.outbound.reach import DEFAULT_REACH
from radius.agent.alarms import Alarms
from radius.agent.coa.queue import CoaQueue
from radius.agent.coa.sender import CoaSender
from radius.agent.coa.transmission import Pacing
from tests.factories.dictionary import installed_dictionary
from tests.polling import until

SECRET = b"a secret of the tenant"
SOURCE = "127.0.0.1"
PORT = 3799
DISCONNECT_ACK, DISCONNECT_NAK, COA_ACK, COA_NAK = 41, 42, 44, 45
# Shorter than in production, in the same proportions.
QUICK = Pacing(first_seconds=0.2, longest_seconds=1.6, packets=3, per_second=1_000)
_numbers = itertools.count(1)


def own_address() -> str:
    """A loopback address for one simulated NAS, because vendors have fixed ports."""
    return f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}"


def attributes_of(packet: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 20
    while at < len(packet):
        found.append((packet[at], packet[at + 2 : at + packet[at + 1]]))
        at += packet[at + 1]
    return found


def answer(request: bytes, code: int, *, secret=SECRET, cause=0, signed=True, identifier=None) -> bytes:
    """The response of RFC 5176, implemented independently of Admit."""
    body = struct.pack("!BBI", 101, 6, cause) if cause else b""
    body += (b"\x50\x12" + bytes(16)) if signed else b""
    head = struct.pack("!BBH", code, request[1] if identifier is None else identifier, 20 + len(body))
    if signed:
        body = body[:-16] + hmac.digest(secret, head + request[4:20] + body, "md5")
    return head + md5(head + request[4:20] + body + secret, usedforsecurity=False).digest() + body


class SimulatedNas:
    """Reads requests one by one. `answer` replies to the sender of the last request."""

    def __init__(self, port=PORT) -> None:
        self.address = own_address()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.address, port))
        self.socket.settimeout(30)
        self.sender = ("", 0)

    def request(self) -> bytes:
        packet, self.sender = self.socket.recvfrom(4096)
        return packet

    def send(self, datagram: bytes) -> None:
        self.socket.sendto(datagram, self.sender)

    def acknowledge(self, code=DISCONNECT_ACK) -> bytes:
        """Acknowledge the next request. Returns the request."""
        packet = self.request()
        self.send(answer(packet, code))
        return packet

    def is_silent(self, seconds=0.5) -> bool:
        """Whether no other request arrives within `seconds`."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recvfrom(4096)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(30)
        return False


class OpenSealer:
    """Returns SECRET as the secret of every slot and NAS."""

    def open(self, sealed: bytes, context: str) -> bytes:
        return SECRET


def add_session(owner, tenant, address, *, nas_id=None, mac="", **values) -> int:
    """Add a live session of the NAS at `address`. Returns the session's id."""
    number = next(_numbers)
    row = {
        "tenant_id": tenant.id,
        "nas_key": f"switch|{address}",
        "session_id": f"s{number}",
        "mac_key": "",
        "mac": mac or f"02aa{number:08x}",
        "nas_id": nas_id,
        "nas_address": address,
        "identity": "anna",
    } | values
    columns = ", ".join(row)
    places = ", ".join(["%s"] * len(row))
    (made,) = owner.execute(
        f"INSERT INTO sessions ({columns}, started_at, updated_at) VALUES ({places}, now(), now()) RETURNING id",
        list(row.values()),
    ).fetchone()
    return made


def add_vendor_nas(owner, tenant, address, vendor="", **values):
    row = {"behind_nat": False, "signs_coa_answers": False} | values
    (site,) = owner.execute("SELECT default_site_id FROM tenants WHERE id = %s", (tenant.id,)).fetchone()
    (nas_id,) = owner.execute(
        "INSERT INTO nases (tenant_id, site_id, name, address, vendor, behind_nat, signs_coa_answers) "
        "VALUES (%s, %s, 'Switch', %s, %s, %s, %s) RETURNING id",
        (tenant.id, site, address, vendor, row["behind_nat"], row["signs_coa_answers"]),
    ).fetchone()
    return nas_id


def ask(owner, session_row, kind="disconnect", **values) -> int:
    """Queue a CoA request as the service does. Returns the request's id."""
    row = {"kind": kind, "reason": "requested"} | values
    columns = "".join(f", {name}" for name in row)
    places = "".join(", %s" for _ in row)
    (made,) = owner.execute(
        "INSERT INTO coa_requests (session_row, tenant_id, session_id, nas_id, nas_address, nas_key, nas_port, mac, "
        f"identity{columns}) SELECT id, tenant_id, session_id, nas_id, nas_address, nas_key, nas_port, mac, "
        f"identity{places} FROM sessions WHERE id = %s RETURNING id",
        [*row.values(), session_row],
    ).fetchone()
    return made


def outcome(owner, request, *columns):
    names = ", ".join(columns or ("state",))
    row = owner.execute(f"SELECT {names} FROM coa_requests WHERE id = %s", (request,)).fetchone()
    return row if len(row) > 1 else row[0]


def ends(owner, request, *columns):
    """The outcome of a request after its end."""
    until(lambda: outcome(owner, request) not in ("queued", "sending"), "the request has ended")
    return outcome(owner, request, *columns)


def make_sender(engine, cell_id, *, queue=None, pacing=QUICK, source=SOURCE, reach=DEFAULT_REACH) -> CoaSender:
    return CoaSender(
        queue or CoaQueue(engine, cell_id, OpenSealer()),
        engine,
        listen_address=source,
        dictionary=installed_dictionary(),
        alarms=Alarms(),
        reach=reach,
        pacing=pacing,
    )


@contextmanager
def running(sender: CoaSender):
    stop = threading.Event()
    thread = threading.Thread(target=sender.run, args=(stop,))
    thread.start()
    try:
        yield sender
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()
