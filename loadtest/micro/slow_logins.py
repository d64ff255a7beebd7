"""Measures the effect of slow logins on other logins. rlm_rest blocks a thread for each slow login; proxying blocks no
thread.

Starts a radiusd with one thread per core, and a backend of each kind that responds after SLOW_SECONDS. Needs the
package freeradius-rest in addition to Admit's packages. `python -m loadtest.micro.slow_logins`
"""

import asyncio
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from loadtest.processes import LOOPBACK, free_ports
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import encode_attribute
from radius.verifier.server import VerifierServer, listen

SLOW_SECONDS = 10.0
WINDOW_SECONDS = 3.0
SECRET = "secret-of-this-measurement"  # noqa: S105 -- between processes of one run
_ANSWER_SECONDS = 1.0

_CONFIGURATION = """
prefix = /usr
name = slow
confdir = {folder}
logdir = {folder}
run_dir = {folder}
libdir = /usr/lib/freeradius
log {{
	destination = stdout
}}
max_request_time = 30
max_requests = 262144
security {{
	require_message_authenticator = yes
	status_server = no
}}
thread pool {{
	start_servers = {threads}
	max_servers = {threads}
	min_spare_servers = {threads}
	max_spare_servers = {threads}
}}
proxy_requests = yes
home_server backend {{
	type = auth
	ipaddr = 127.0.0.1
	port = {proxied}
	secret = "{secret}"
	require_message_authenticator = yes
	response_window = 20
	zombie_period = 40
	status_check = none
}}
home_server_pool backend {{
	home_server = backend
}}
realm backend {{
	auth_pool = backend
	nostrip
}}
modules {{
	always ok {{
		rcode = ok
	}}
	rest {{
		connect_uri = "http://127.0.0.1:{rest}"
		connect_timeout = 20
		authorize {{
			uri = "${{..connect_uri}}/"
			method = "get"
			timeout = 20
		}}
		pool {{
			start = 0
			min = 0
			max = 32
		}}
	}}
}}
{servers}
"""
_SERVER = """
server {name} {{
	client {name} {{
		ipaddr = 127.0.0.1
		secret = "{secret}"
	}}
	listen {{
		type = auth
		ipaddr = 127.0.0.1
		port = {port}
	}}
	authorize {{
		if (&User-Name == "slow") {{
			{ask}
		}}
		else {{
			update control {{
				&Auth-Type := Accept
			}}
		}}
	}}
}}
"""
_ASK = {"rlm_rest": "rest", "proxying": "update control {\n&Proxy-To-Realm := backend\n}"}


@contextmanager
def slow_backends() -> Iterator[tuple[int, int]]:
    """Run a web server and a RADIUS server that respond after SLOW_SECONDS. Yields the ports of the servers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(SLOW_SECONDS)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name in http.server
            """Log nothing."""

    async def verify(slot: int, name: bytes, password: bytes) -> VerificationResult:
        await asyncio.sleep(SLOW_SECONDS)
        return VerificationResult()

    web = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    web.daemon_threads = True
    threading.Thread(target=web.serve_forever, daemon=True).start()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((LOOPBACK, 0))
    port = sock.getsockname()[1]
    loop = asyncio.new_event_loop()
    transport = loop.run_until_complete(listen(VerifierServer(SECRET.encode(), verify), sock))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield web.server_port, port
    finally:
        web.shutdown()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        transport.abort()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()


@contextmanager
def running_radiusd(threads: int) -> Iterator[dict[str, int]]:
    """Run radiusd.

    Yields the port of each virtual server by the method that it uses for the backend: `rlm_rest` or `proxying`.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-slow-")))
        rest, proxied = stack.enter_context(slow_backends())
        ports = dict(zip(_ASK, free_ports(len(_ASK)), strict=True))
        servers = "".join(
            _SERVER.format(name=f"server{number}", secret=SECRET, port=ports[kind], ask=_ASK[kind])
            for number, kind in enumerate(_ASK)
        )
        (folder / "radiusd.conf").write_text(
            _CONFIGURATION.format(
                folder=folder, threads=threads, secret=SECRET, rest=rest, proxied=proxied, servers=servers
            )
        )
        process = subprocess.Popen(
            ["/usr/sbin/freeradius", "-f", "-d", folder, "-l", "stdout"], stdout=subprocess.DEVNULL
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        for port in ports.values():
            while not ask(port, "quick", seconds=0.2):
                if process.poll() is not None:
                    raise SystemExit("radiusd does not start; is freeradius-rest installed?")
        yield ports


def ask(port: int, name: str, *, seconds: float) -> bool:
    """Send a request. Return whether a response arrives within `seconds`."""
    with _asking(port, name) as sock:
        sock.settimeout(seconds)
        try:
            return bool(sock.recv(4096))
        except (TimeoutError, ConnectionRefusedError):
            return False


@contextmanager
def _asking(port: int, name: str) -> Iterator[socket.socket]:
    attributes = encode_attribute(packet.USER_NAME, name) + encode_attribute(packet.NAS_IDENTIFIER, "slot_0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((LOOPBACK, port))
        sock.send(packet.make_access_request(1, os.urandom(16), attributes, SECRET.encode(), b"x"))
        yield sock


def measure(port: int, slow: int) -> tuple[int, int]:
    """Send quick requests one after the other while `slow` logins wait.

    Returns the numbers of answered and unanswered requests.
    """
    answered = unanswered = 0
    with ExitStack() as stack:
        for _ in range(slow):
            stack.enter_context(_asking(port, "slow"))
        time.sleep(0.2)
        until = time.monotonic() + WINDOW_SECONDS
        while time.monotonic() < until:
            if ask(port, "quick", seconds=_ANSWER_SECONDS):
                answered += 1
            else:
                unanswered += 1
    return answered, unanswered


def main() -> None:
    threads = os.cpu_count() or 1
    print(f"{threads} threads; quick requests within {WINDOW_SECONDS:g} s, one after the other: answered, not answered")
    for slow in (0, threads, 100):
        for kind in _ASK:
            with running_radiusd(threads) as ports:
                print(f"{slow:4} slow logins, {kind:9} {measure(ports[kind], slow)}")


if __name__ == "__main__":
    main()
