"""Sends the requests of the table `coa_requests` to NASes and stores the responses (RFC 5176).

The agent records each packet in the database before the agent sends the packet. So no request is lost if the agent is
killed. The next agent continues the unfinished requests, a limited number of times.

`ConcurrencyLimits` limits the requests in flight. So NASes that do not respond do not delay requests to other NASes.
"""

import logging
import math
import random
import select
import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple
from uuid import UUID

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from nac.engine.dictionary import Dictionary
from nac.engine.vendors import find_vendor
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import epoch_seconds
from nac.kit.db import connect
from nac.kit.errors import AdmitError, Unavailable
from nac.kit.outbound.reach import DEFAULT_REACH, OutboundReach
from nac.kit.radius_packet import MAX_PACKET_BYTES
from radius.agent.alarms import Alarms, first_error_line
from radius.agent.coa.packet import DiscardedResponse, parse_response
from radius.agent.coa.queue import ClaimedRequest, CoaQueue, CoaResult
from radius.agent.coa.transmission import CannotSend, CoaTransmission, Pacing, find_peer, make_result, nas_reach

MAX_IN_FLIGHT = 512
# Two limits of one tenant's requests in flight: to NASes that responded last time or are untested, and to all NASes
# together.
MAX_PER_TENANT, MAX_PER_TENANT_WITH_SILENT = 16, 64
# Limit of one tenant's requests in flight to NASes that did not respond last time.
MAX_SILENT_PER_TENANT = 4
# Limit of requests in flight to a NAS that responded last time. To any other NAS, the limit is one request.
MAX_PER_NAS = 4
# Limit of one tenant's requests that the agent takes in one read of the queue.
MAX_TAKEN_PER_TENANT = 4
_MAX_REMEMBERED = 8_192


class SaturatedTargets(NamedTuple):
    # Keys of NASes, as in `ClaimedRequest.nas`.
    nases: list[str]
    tenants: list[UUID]


class ConcurrencyLimits:
    def __init__(self) -> None:
        # Whether each NAS responded last time. Untested NASes have no entry.
        self._answers: OrderedDict[str, bool] = OrderedDict()

    def note(self, nas: str, *, answers: bool) -> None:
        self._answers[nas] = answers
        self._answers.move_to_end(nas)
        if len(self._answers) > _MAX_REMEMBERED:
            self._answers.popitem(last=False)

    def full(self, flights: Collection[CoaTransmission]) -> SaturatedTargets:
        at_nas = Counter(flight.taken.nas for flight in flights)
        every, silent = Counter[UUID](), Counter[UUID]()
        for flight in flights:
            every[flight.taken.row.tenant_id] += 1
            silent[flight.taken.row.tenant_id] += self._is_silent(flight.taken.nas)
        nases = {nas for nas, count in at_nas.items() if count >= (MAX_PER_NAS if self._answers.get(nas) else 1)}
        crowded = tuple(str(tenant) for tenant, count in silent.items() if count >= MAX_SILENT_PER_TENANT)
        if crowded:
            nases.update(nas for nas in self._answers if self._is_silent(nas) and nas.startswith(crowded))
        tenants = [
            tenant
            for tenant, count in every.items()
            if count - silent[tenant] > MAX_PER_TENANT - MAX_TAKEN_PER_TENANT
            or count > MAX_PER_TENANT_WITH_SILENT - MAX_TAKEN_PER_TENANT
        ]
        return SaturatedTargets(sorted(nases), tenants)

    def _is_silent(self, nas: str) -> bool:
        return self._answers.get(nas) is False


# Limit of responses that the agent reads before it does other work.
MAX_READ = 256
MAX_REMEMBERED = 1_024
POLL_SECONDS = 1.0
# Time after a notification in which the agent polls more often, and its poll interval. The cell may first have to
# receive the change that caused the request.
EAGER_SECONDS, EAGER_POLL_SECONDS = 2.0, 0.05
RETRY_SECONDS = 1.0
# Interval to check for NASes that do not respond.
UNANSWERED_CHECK_SECONDS = 10.0
_ALARM, _UNANSWERED = "coa", "coa-unanswered"
_log = logging.getLogger(__name__)
_ResponseKey = tuple[str, int, int]


class CoaSender:
    def __init__(
        self,
        queue: CoaQueue,
        engine: Engine,
        *,
        listen_address: str,
        dictionary: Dictionary,
        alarms: Alarms,
        reach: OutboundReach = DEFAULT_REACH,
        pacing: Pacing | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._queue = queue
        self._engine = engine
        self._listen_address = listen_address
        self._reach = nas_reach(listen_address, reach)
        self._dictionary = dictionary
        self._alarms = alarms
        self._pacing = pacing or Pacing()
        self._sockets: Sockets = {}
        self._flights: dict[int, CoaTransmission] = {}
        # Requests that wait for a response, by source and identifier of the response.
        self._awaited: dict[_ResponseKey, CoaTransmission] = {}
        self._ended: list[CoaResult] = []
        # Keys of requests that have ended. A response to such a request counts as late. A response without a request
        # counts as unknown.
        self._past: OrderedDict[_ResponseKey, None] = OrderedDict()
        self._places = ConcurrencyLimits()
        # Earliest time of the next packet to each NAS.
        self._free_at: dict[str, float] = {}
        self._next_identifier = random.randrange(256)  # noqa: S311  # a restarted agent begins with another identifier
        self._take_at = self._look_at = 0.0
        self._eager_until = 0.0

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                with open_sockets(self._listen_address) as self._sockets:
                    self._run_with_sockets(stop)
            except OSError as exc:
                self._alarm_and_wait(exc, stop)

    def _run_with_sockets(self, stop: threading.Event) -> None:
        """Process requests and responses.

        If the database fails, the sockets stay open, because responses to earlier requests may still arrive on the
        sockets.
        """
        while not stop.is_set():
            try:
                self._follow(stop)
            except (AdmitError, SQLAlchemyError, psycopg.Error) as exc:
                self._alarm_and_wait(exc, stop)
            except OSError:
                raise
            except Exception as exc:  # house-rule: the next request may succeed
                _log.exception("cannot send requests to NASes")
                self._alarm_and_wait(exc, stop)

    def _alarm_and_wait(self, exc: Exception, stop: threading.Event) -> None:
        self._alarms.report(_ALARM, f"CoA and Disconnect requests are not sent: {first_error_line(exc)}")
        stop.wait(RETRY_SECONDS)

    def _follow(self, stop: threading.Event) -> None:
        url = self._engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with connect(url, autocommit=True, application_name="admit-coa-listen") as listener:
            listener.execute("LISTEN coa_requests")
            self._take_at = 0.0
            while not stop.is_set():
                self._wait(listener)
                self._receive()
                self._store_results()
                self._take()
                self._send_due()
                self._check_unanswered()
                self._alarms.clear(_ALARM)

    def _wait(self, listener: psycopg.Connection) -> None:
        now = time.monotonic()
        due = min((flight.due for flight in self._flights.values()), default=now + POLL_SECONDS)
        seconds = 0.0 if self._ended else max(0.0, min(due, self._take_at, now + POLL_SECONDS) - now)
        ready = select.poll()
        for heard in (listener.fileno(), *(bound.fileno() for bound in self._sockets.values())):
            ready.register(heard, select.POLLIN)
        ready.poll(math.ceil(seconds * 1000))
        if any(True for _ in listener.notifies(timeout=0)):
            self._take_at, self._eager_until = 0.0, time.monotonic() + EAGER_SECONDS

    def _receive(self) -> None:
        for bound in self._sockets.values():
            with suppress(BlockingIOError):
                for _ in range(MAX_READ):
                    try:
                        datagram, sender = bound.recvfrom(MAX_PACKET_BYTES + 1)
                    except ConnectionError:
                        continue
                    self._heard(datagram, sender[0], sender[1])

    def _heard(self, datagram: bytes, host: str, port: int) -> None:
        key = (host, port, datagram[1] if len(datagram) > 1 else 0)
        flight = self._awaited.get(key)
        if flight is None:
            self.counters["answers_late" if key in self._past else "answers_foreign"] += 1
            return
        with self._isolate_failures(flight.taken, flight.step):
            self._read(flight, datagram)

    def _read(self, flight: CoaTransmission, datagram: bytes) -> None:
        row = flight.taken.row
        try:
            answer = parse_response(datagram, flight.packet, flight.taken.secret, signed=row.signs_answers)
        except DiscardedResponse as exc:
            self.counters[f"answers_{exc.fault}"] += 1
            flight.ignored[exc.fault] += 1
            return
        self.counters["acknowledged" if answer.accepted else "refused"] += 1
        self._places.note(flight.taken.nas, answers=True)
        self._stop_awaiting(flight)
        if answer.accepted or not flight.go_on("refused", answer.error_cause, time.monotonic()):
            self._end(flight, flight.answered(answer))

    def _store_results(self) -> None:
        if not self._ended:
            return
        try:
            self._queue.end(self._ended)
        except Unavailable:
            raise
        except Exception:  # house-rule: a request that cannot be stored does not delay others
            _log.exception("cannot store the end of a request to a NAS")
            for each in self._ended:
                with suppress(Exception):
                    self._queue.end([each])
        self._ended.clear()
        self._take_at = self._look_at = 0.0

    def _check_unanswered(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + UNANSWERED_CHECK_SECONDS
        if count := self._queue.unanswered():
            self._alarms.report(
                _UNANSWERED,
                Advice(
                    f"{count} NAS{'es do' if count > 1 else ' does'} not answer requests about blocked devices or"
                    " revoked certificates. These devices may still be on the network. Admit retries the"
                    " requests for a day. List the requests",
                    NextStep("listCoaRequests", {"state": "queued"}),
                ),
            )
        else:
            self._alarms.clear(_UNANSWERED)

    @contextmanager
    def _isolate_failures(self, taken: ClaimedRequest, step: int) -> Iterator[None]:
        """If the `with` block raises, end only the request `taken`."""
        try:
            yield
        except Exception as exc:  # house-rule: the requests to all other NASes wait for this thread
            _log.exception("request %d to a NAS failed", taken.row.id)
            self.counters["faults"] += 1
            if (flight := self._flights.get(taken.row.id)) is not None:
                self._forget(flight)
            self._ended.append(
                make_result(taken, step, "unreachable", f"The request cannot be sent: {first_error_line(exc)}.")
            )

    def _take(self) -> None:
        now = time.monotonic()
        if now < self._take_at:
            return
        self._take_at = now + (EAGER_POLL_SECONDS if now < self._eager_until else POLL_SECONDS)
        room = MAX_IN_FLIGHT - len(self._flights)
        if not room:
            return
        full = self._places.full(self._flights.values())
        taken = self._queue.take(room=room, each=MAX_TAKEN_PER_TENANT, busy=full.nases, full=full.tenants)
        for each in taken:
            with self._isolate_failures(each, each.row.step):
                self._begin(each, now)
        if taken:
            # The queue may have more requests than one call takes, so read it again at once.
            self._take_at = now

    def _begin(self, taken: ClaimedRequest, now: float) -> None:
        row = taken.row
        if not row.is_live:
            self._ended.append(make_result(taken, row.step, "withdrawn", "The session had ended."))
            return
        try:
            peer = find_peer(taken, frozenset(self._sockets), self._reach)
        except CannotSend as exc:
            self.counters["unreachable"] += 1
            self._ended.append(make_result(taken, row.step, "unreachable", str(exc)))
            return
        if row.id in self._flights:
            # The request's lease ended while the database did not respond, and this agent has claimed the request
            # again.
            self._forget(self._flights[row.id])
        # The NAS may now have another vendor, whose recipe (sequence of CoA requests) has fewer steps.
        steps = find_vendor(row.vendor).recipe.steps[row.kind]
        self._flights[row.id] = CoaTransmission(taken, row.step if row.step < len(steps) else 0, now, peer)

    def _send_due(self) -> None:
        now = time.monotonic()
        going: list[CoaTransmission] = []
        for flight in sorted(self._flights.values(), key=_due_at):
            with self._isolate_failures(flight.taken, flight.step):
                if self._is_ready_to_send(flight, now):
                    going.append(flight)
        if not going:
            return
        ours = self._queue.record([flight.sending() for flight in going])
        for flight in going:
            if flight.taken.row.id in ours:
                self._send(flight)
            elif flight.sent:
                # The request was withdrawn, or another agent has claimed it.
                flight.withdraw(now, self._pacing)
            else:
                self._forget(flight)

    def _is_ready_to_send(self, flight: CoaTransmission, now: float) -> bool:
        """Whether a packet must be sent now. At the beginning of a step, creates the packet of this step."""
        if flight.due > now:
            return False
        if flight.is_exhausted(self._pacing):
            self._stop_awaiting(flight)
            if not flight.go_on("unanswered", 0, now):
                self.counters["unanswered"] += 1
                self._end(flight, flight.unanswered())
                return False
        free_at = self._free_at.get(flight.taken.nas, 0.0)
        if free_at > now:
            flight.due = free_at
            return False
        if flight.sent:
            self._places.note(flight.taken.nas, answers=False)
        if not flight.packet:
            identifier = self._identifier(flight)
            if identifier is None:
                # All identifiers for this address are in use. The requests that use them end within seconds.
                flight.due = now + RETRY_SECONDS
                return False
            try:
                flight.make_packet(self._dictionary, identifier, at=epoch_seconds())
            except CannotSend as exc:
                self._end(flight, flight.cannot(str(exc)))
                return False
            self._awaited[flight.key] = flight
        self._free_at[flight.taken.nas] = now + 1 / self._pacing.per_second
        if len(self._free_at) > 2 * MAX_IN_FLIGHT:
            self._free_at = {nas: at for nas, at in self._free_at.items() if at > now}
        return True

    def _send(self, flight: CoaTransmission) -> None:
        try:
            self._sockets[flight.peer.family].sendto(flight.packet, (flight.peer.host, flight.peer.port))
            flight.trouble = ""
            self.counters["packets"] += 1
        except OSError as exc:
            # Handle the error as a lost packet.
            flight.trouble = exc.strerror or str(exc)
        flight.record_sent(time.monotonic(), self._pacing)

    def _identifier(self, flight: CoaTransmission) -> int | None:
        """Return an identifier that no other request to this address uses; None if all 256 are in use."""
        for _ in range(256):
            self._next_identifier = (self._next_identifier + 1) % 256
            if (flight.peer.host, flight.peer.port, self._next_identifier) not in self._awaited:
                return self._next_identifier
        return None

    def _end(self, flight: CoaTransmission, end: CoaResult) -> None:
        self._forget(flight)
        self._ended.append(end)

    def _forget(self, flight: CoaTransmission) -> None:
        self._stop_awaiting(flight)
        self._flights.pop(flight.taken.row.id, None)

    def _stop_awaiting(self, flight: CoaTransmission) -> None:
        if self._awaited.get(flight.key) is not flight:
            return
        del self._awaited[flight.key]
        self._past[flight.key] = None
        if len(self._past) > MAX_REMEMBERED:
            self._past.popitem(last=False)


def _due_at(flight: CoaTransmission) -> float:
    return flight.due


Sockets = dict[socket.AddressFamily, socket.socket]


@contextmanager
def open_sockets(address: str) -> Iterator[Sockets]:
    """Open sockets on the address that NASes know.

    If the cell listens on all addresses, open one socket for each address family.

    Raises OSError.
    """
    every = address in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound
    with ExitStack() as stack:
        sockets: Sockets = {}
        for family in (socket.AF_INET, socket.AF_INET6):
            if every or (family == socket.AF_INET6) == (":" in address):
                sockets[family] = bound = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                if family == socket.AF_INET6:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                bound.setblocking(False)
                bound.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0) if every else (address, 0))  # noqa: S104
        yield sockets
