"""Load of a cell during faults, and the check that every acknowledged record is stored once.

The load has permitted and rejected MAC authentications, EAP-TLS, and accounting of several tenants. A thread sends it
at a steady rate.
"""

import os
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count, cycle, pairwise
from time import perf_counter
from typing import Self

from loadtest.bench_tenants import ProvisionedTenant
from loadtest.eap_tls_client import EapTls, Supplicant, client_context
from loadtest.radius_client import Exchange, RadiusClient, Request, Target
from loadtest.tally import RunResult
from loadtest.tenants import CERTIFICATE_VLAN
from loadtest.workloads import START, STOP, AccountingSource, BenchDevice, BenchNas, mab_request
from nac.kit.radius_packet import ACCESS_REJECT
from tests.polling import until
from tests.whole.instance import Instance

# Six attempts with an interval of 2 s, as is common for switches. A response may take 12 s.
TRIES = 6
REJECT_DELAY_SECONDS = 1.0
PERMITTED, UNKNOWN = "mab", "mab-unknown"
# Mostly accounting and permits, some rejects, which wait for the reject delay, and a few handshakes.
_TURNS = ("acct", "mab", "acct", "mab", "acct", "unknown", "acct", "mab", "acct", "tls")
_STATUS_NAMES = {START: "Start", STOP: "Stop"}
_unknown_numbers = count()
Note = Callable[[str, float | int], None]


class _ObservedExchange:
    """Forwards an exchange and records the time of the response."""

    def __init__(self, exchange: Exchange, answers: list[float]) -> None:
        self._exchange = exchange
        self._answers = answers
        self.target = exchange.target
        self.code = exchange.code
        self.first = exchange.first

    @property
    def kind(self) -> str:
        return self._exchange.kind

    def receive(self, reply: bytes) -> Request | str:
        outcome = self._exchange.receive(reply)
        if isinstance(outcome, str):
            self._answers.append(perf_counter())
        return outcome


class Load:
    """Load that runs within its `with` block.

    Afterwards, `run` has the client's counts, and `assert_...` compares the rows with them.
    """

    def __init__(
        self,
        instance: Instance,
        tenants: Sequence[ProvisionedTenant],
        note: Note,
        *,
        per_second: float = 150,
        with_eap: bool = True,
        tries: int = TRIES,
    ) -> None:
        self._instance = instance
        self._tenants = tenants
        self._note = note
        self._per_second = per_second
        self._tries = tries
        self._turns = [turn for turn in _TURNS if with_eap or turn != "tls"]
        # Identifies the rows of this load: its NAS, and the beginning of its accounting session ids.
        self._name = f"load-{os.urandom(4).hex()}"
        self._nas = BenchNas(identifier=self._name)
        self._devices = [
            BenchDevice(made.target, each.mac, each.vlan) for made in tenants for each in made.tenant.endpoints
        ]
        self._accounting = AccountingSource(self._devices, prefix=self._name, nas=self._nas, open_sessions=50)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._generate, name="load")
        # The time of each response on the clock of perf_counter. The list grows during the load.
        self.answers: list[float] = []
        self.run = RunResult()

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self.answers, "a first answer")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _generate(self) -> None:
        source = self._source()
        with RadiusClient(tries=self._tries) as client:
            self.run = client.run(
                lambda: next(source, None), count=1 << 40, window=1 << 14, per_second=self._per_second
            )

    def _source(self) -> Iterator[Exchange]:
        permits = cycle(self._devices)
        nas = self._nas.attributes()
        handshakes = cycle(_supplicants(self._tenants, nas))
        for turn in cycle(self._turns):
            if self._stop.is_set():
                return
            exchange: Exchange | None
            if turn == "acct":
                exchange = self._accounting()
            elif turn == "tls":
                target, supplicant = next(handshakes)
                exchange = EapTls(target, supplicant, vlan=CERTIFICATE_VLAN)
            elif turn == "unknown":
                # A new address each time, because this load does not test the failure limiter.
                mac = f"02ff{next(_unknown_numbers):08x}"
                exchange = mab_request(next(permits).target, mac, nas, expected=ACCESS_REJECT, kind=UNKNOWN)
            else:
                device = next(permits)
                exchange = mab_request(device.target, device.mac, nas, vlan=device.vlan, kind=PERMITTED)
            assert exchange is not None
            yield _ObservedExchange(exchange, self.answers)

    # Results that the client observed.

    @property
    def acknowledged(self) -> int:
        return len(self._accounting.acknowledged)

    def answered_since(self, moment: float) -> int:
        """The number of responses after `moment` (perf_counter)."""
        return len(self.answers) - bisect_right(self.answers, moment)

    @property
    def longest_silence_seconds(self) -> float:
        return max((later - earlier for earlier, later in pairwise(self.answers)), default=0.0)

    def assert_served(self) -> None:
        """Every request was answered correctly, with any number of retransmissions."""
        assert self.run.right > 0
        assert not self.run.faults(), f"{dict(self.run.faults())}; the cell says: {self._strange_decisions()}"

    def assert_undisturbed(self) -> None:
        """No response was slow enough for a retransmission. Records the slowest kind, without the reject delay."""
        self.assert_served()
        assert self.run.retransmissions == 0
        slowest = max(
            tally.latency.percentile(0.99) - (REJECT_DELAY_SECONDS if kind == UNKNOWN else 0.0)
            for kind, tally in self.run.tallies.items()
        )
        self._note("p99 of the slowest kind meanwhile", slowest)

    # Rows in the database.

    def assert_unaffected(self) -> None:
        """No response was slow, and every decision and acknowledged record is stored once."""
        self._instance.wait_until_shipped()
        self.assert_undisturbed()
        self.assert_decisions_stored()
        self.assert_accounting_stored_once()

    def assert_nothing_lost(self) -> None:
        """Every request was answered, perhaps by another radiusd, and every acknowledged record is stored once."""
        self._instance.wait_until_shipped()
        self.assert_served()
        self.assert_decisions_stored_at_least()
        self.assert_accounting_stored_once()

    def assert_accounting_stored_once(self) -> None:
        """Each acknowledged record is one row, and each other record is at most one row."""
        rows = self._instance.query(
            "SELECT session_id, status_type, coalesce(session_seconds, 0), count(*) FROM accounting_log "
            "WHERE tenant_id = ANY (%s) AND session_id LIKE %s GROUP BY 1, 2, 3",
            [made.tenant_id for made in self._tenants],
            f"{self._name}-%",
        )
        stored = {(session, status, int(seconds)): number for session, status, seconds, number in rows}
        promised = Counter(
            (record.session_id, _STATUS_NAMES.get(record.status, "Interim-Update"), record.session_seconds)
            for record in self._accounting.acknowledged
        )
        assert promised
        lost = [record for record in promised if record not in stored]
        twice = {record: number for record, number in stored.items() if number > 1}
        assert (lost, twice) == ([], {}), f"of {len(promised)} acknowledged records"

    def assert_decisions_stored(self) -> None:
        """`auth_log` has as many rows as there were answered requests and conversations, with their reasons."""
        decided = self._count_decisions()
        kinds = {kind: tally.finished for kind, tally in self.run.tallies.items() if not kind.startswith("acct")}
        unknown = kinds.pop(UNKNOWN, 0)
        assert decided == +Counter({"rule-permitted": sum(kinds.values()), "unknown-mac": unknown})

    def assert_decisions_stored_at_least(self) -> None:
        """As `assert_decisions_stored`, but a request repeated to another radiusd may have two rows."""
        answered = sum(tally.right for kind, tally in self.run.tallies.items() if not kind.startswith("acct"))
        decided = self.count_decided()
        assert answered <= decided <= answered + self.run.retransmissions

    def count_decided(self) -> int:
        """The number of rows of auth_log that this load caused."""
        return self._count_decisions().total()

    def _strange_decisions(self) -> list[tuple[object, ...]]:
        """Decisions of this load with unexpected reasons, among the shipped records."""
        return self._instance.query(
            "SELECT at::text, mac::text, reason, detail FROM auth_log WHERE nas_identifier = %s "
            "AND reason NOT IN ('rule-permitted', 'unknown-mac') ORDER BY at LIMIT 20",
            self._name,
        )

    def _count_decisions(self) -> Counter[str]:
        rows = self._instance.query(
            "SELECT reason, count(*) FROM auth_log WHERE tenant_id = ANY (%s) AND nas_identifier = %s GROUP BY 1",
            [made.tenant_id for made in self._tenants],
            self._name,
        )
        return Counter(dict(rows))


def _supplicants(tenants: Sequence[ProvisionedTenant], nas: bytes) -> list[tuple[Target, Supplicant]]:
    made = []
    for tenant in tenants:
        for files in tenant.clients:
            context = client_context(certificate=str(files.certificate), key=str(files.key))
            supplicant = Supplicant(context, files.identity, nas, server_certificate=tenant.server_certificate)
            made.append((tenant.target, supplicant))
    return made
