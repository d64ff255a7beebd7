"""Keeps the verifier's process running, and reads the verifier's reports."""

import logging
import select
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec

from nac.kit.outbound.reach import DEFAULT_REACH, OutboundReach
from radius.agent.alarms import Alarms
from radius.agent.paths import CellPaths
from radius.agent.radiusd.configuration import RADDB
from radius.agent.radiusd.generation import verifier_secret
from radius.agent.radiusd.process import child_group_id, minimal_environment
from radius.verifier.agent_messages import VerifierReport, VerifierSettings

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_BUFFER_BYTES = 4 << 20
STOP_SECONDS = 3.0
# Seconds without a report after which the verifier counts as hanging. The verifier reports every second.
HANG_SECONDS = 15
_TICK_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 10.0
_STAYED_UP_SECONDS = 30.0
_ALARM = "verifier"


class VerifierProcess:
    def __init__(
        self,
        port: int,
        paths: CellPaths,
        alarms: Alarms,
        *,
        reject_delay_seconds: float = 0,
        reach: OutboundReach = DEFAULT_REACH,
        is_left: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the object that keeps the verifier's process running.

        `is_left` returns whether the verifier must continue to run after this agent has ended.
        """
        self.counters: Counter[str] = Counter()
        self.pid = 0
        self._port = port
        self._paths = paths
        self._alarms = alarms
        self._reject_delay_seconds = reject_delay_seconds
        self._reach = reach
        self._is_left = is_left
        # Counters of verifier processes that have ended.
        self._before: Counter[str] = Counter()
        self._troubled: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        sock = self._take_port(stop)
        if sock is not None:
            with sock:
                self._keep_running(sock, stop)

    def _take_port(self, stop: threading.Event) -> socket.socket | None:
        """Bind the socket of the verifier. The socket stays open until this agent ends.

        Returns None if `stop` was set first.
        """
        while not stop.is_set():
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            # Share the port with a verifier that a killed agent left: that verifier responds until the new verifier
            # responds.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                sock.bind((LOOPBACK, self._port))
            except OSError as exc:
                sock.close()
                self._alarms.report(
                    _ALARM,
                    "Logins that need a directory or argon2id are rejected. "
                    f"UDP port {self._port} cannot be opened: {exc}",
                )
                stop.wait(1)
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
                sock.setblocking(False)
                return sock
        return None

    def _keep_running(self, sock: socket.socket, stop: threading.Event) -> None:
        backoff = 0.0
        while not stop.is_set():
            started = time.monotonic()
            process = self._start(sock)
            try:
                self._follow(process, stop)
            finally:
                if stop.is_set() and self._is_left():
                    _abandon(process)
                else:
                    self._end(process)
            if stop.is_set():
                return
            stayed_up = time.monotonic() - started > _STAYED_UP_SECONDS
            backoff = 0.2 if stayed_up else min(max(0.2, backoff * 2), _MAX_BACKOFF_SECONDS)
            self.counters["restarts"] += 1
            self._before = self.counters.copy()
            log.error("the verifier has ended with status %s; restarting it", process.returncode)
            self._alarms.report(
                _ALARM, "Logins that need a directory or argon2id are rejected: the verifier keeps failing."
            )
            stop.wait(backoff)

    def _start(self, sock: socket.socket) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "radius.verifier"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=RADDB.parent.parent,
            env=minimal_environment(),
            group=child_group_id(),
            pass_fds=(sock.fileno(),),
            start_new_session=True,
        )
        orders = VerifierSettings(
            sock.fileno(),
            str(self._paths.verifier_pid),
            verifier_secret(self._paths),
            str(self._paths.replica),
            str(self._paths.key),
            self._reject_delay_seconds,
            str(self._reach),
        )
        self.pid = process.pid
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(orders) + b"\n")
            process.stdin.flush()
        return process

    def _follow(self, process: "subprocess.Popen[bytes]", stop: threading.Event) -> None:
        """Read reports until the verifier ends or hangs, or `stop` is set."""
        assert process.stdout is not None
        heard = time.monotonic()
        while not stop.is_set():
            if not select.select([process.stdout], [], [], _TICK_SECONDS)[0]:
                if time.monotonic() - heard > HANG_SECONDS:
                    log.error("the verifier sent no report for %d s", HANG_SECONDS)
                    return
                continue
            heard = time.monotonic()
            line = process.stdout.readline()
            if not line:
                process.wait()
                return
            try:
                report = msgspec.json.decode(line, type=VerifierReport)
            except msgspec.DecodeError:
                # The verifier was killed while it wrote a report, so the line is incomplete.
                log.error("the verifier sent an invalid report")
                return
            self._handle_report(report)

    def _handle_report(self, report: VerifierReport) -> None:
        self._alarms.clear(_ALARM)
        for name, count in report.counters.items():
            self.counters[name] = self._before[name] + count
        for source_id, trouble in report.trouble.items():
            self._alarms.report(f"identity-source-{source_id}", trouble.what, tenant=trouble.tenant)
        for source_id in self._troubled - report.trouble.keys():
            self._alarms.clear(f"identity-source-{source_id}")
        self._troubled = set(report.trouble)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        # Stop the verifier by a signal. If only its standard input is closed, the verifier assumes that the agent was
        # killed.
        process.terminate()
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self.pid = 0


def _abandon(process: "subprocess.Popen[bytes]") -> None:
    """Leave the verifier running, as if the agent had been killed."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.close()
    # Without an exit status, Popen would warn of a process that still runs.
    process.returncode = 0
