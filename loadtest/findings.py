"""Compares measured values with the performance targets."""

from collections.abc import Mapping
from dataclasses import dataclass

from loadtest.change_latency import ChangeTimes
from loadtest.eap_tls_client import FALLEN_BACK, RESUMED
from loadtest.peers.peer_systems import RLM_SQL, STOCK
from loadtest.systems import Results

PRODUCT = "admit"
# Name of the measurement with tenants that were created after radiusd's last start. For these tenants, radiusd reads
# the server certificate at each handshake.
PRODUCT_NEW_TENANTS = "admit, new tenants"


@dataclass(frozen=True, slots=True)
class Footprint:
    """Start time and memory of a cell (target P13)."""

    # Seconds until the last of the default slots responded.
    ready_seconds: float
    # Memory of a slot with a tenant whose policy is compiled.
    bytes_per_tenant: float


@dataclass(frozen=True, slots=True)
class SteadyAccounting:
    """Accounting at a fixed rate (target P4)."""

    acknowledged_per_second: float
    # Rows per second that reached PostgreSQL in the second half of the run.
    arrived_per_second: float
    # Journal bytes that had not reached PostgreSQL: after the first half of the run, and at its end.
    backlog_bytes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    target: str
    what: str
    value: float
    unit: str
    limit: float
    at_least: bool

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        sign, verdict = ">=" if self.at_least else "<=", "met" if self.met else "MISSED"
        value, limit = f"{format_number(self.value)}{self.unit}", f"{sign} {format_number(self.limit)}{self.unit}"
        return f"{self.target:<4}{value:>10}  (target {limit}) {verdict}: {self.what}"


def format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"


def judge_targets(
    results: Results,
    *,
    stored: Mapping[str, tuple[int, int]],
    steady: SteadyAccounting | None,
    changes: ChangeTimes | None,
    footprint: Footprint | None,
) -> list[Finding]:
    """Return a finding for each measured target, in the order of the target numbers."""
    found = [*_mab(results), *_handshakes(results), *_reconnects(results), *_accounting(results, steady)]
    for stream, (rows, answered) in stored.items():
        if answered:
            what = f"rows in PostgreSQL for each answered request, {stream}"
            found.append(Finding("P1" if stream == "auth" else "P4", what, rows / answered, "", 1, at_least=True))
    if changes is not None:
        slowest, slowest_tenant = changes.endpoint_changes[-1], max(changes.tenants)
        what = f"slowest of {len(changes.endpoint_changes)} changes of a device until the cell used it"
        found.append(Finding("P11", what, slowest, " s", 1, at_least=False))
        what = (
            f"slowest of {len(changes.tenants)} new tenants until its device was admitted; no effect on other tenants"
        )
        found.append(Finding("P11", what, slowest_tenant, " s", 5, at_least=False))
    if footprint is not None:
        what = "memory of radiusd for each tenant"
        found.append(Finding("P13", what, footprint.bytes_per_tenant / 1000, " kB", 200, at_least=False))
        what = "start of radiusd until the last of its default slots responded"
        found.append(Finding("P13", what, footprint.ready_seconds, " s", 2, at_least=False))
    return found


def _mab(results: Results) -> list[Finding]:
    if ("mab", PRODUCT) not in results:
        return []
    ours, sql, stock = (results["mab", name] for name in (PRODUCT, RLM_SQL, STOCK))
    cpu = ours.microseconds("radiusd") / stock.microseconds("radiusd")
    rate = "MAB rate including storage in PostgreSQL, relative to FreeRADIUS with rlm_sql"
    answers = "MAB rate of responses, relative to FreeRADIUS with rlm_sql"
    found = [
        Finding("P1", rate, ours.stored_rate / sql.rate, "x", 4, at_least=True),
        Finding("P1", answers, ours.rate / sql.rate, "x", 4, at_least=True),
        Finding("P1", "radiusd's CPU time per MAB, relative to stock with files", cpu, "x", 2, at_least=False),
    ]
    if ("mab-paced", PRODUCT) in results:
        paced, stock = results["mab-paced", PRODUCT], results["mab-paced", STOCK]
        cpu = paced.microseconds("radiusd") / stock.microseconds("radiusd")
        what = "radiusd's CPU time per MAB at an equal rate, relative to stock"
        found.append(Finding("P1", what, cpu, "x", 2, at_least=False))
    return found


def _handshakes(results: Results) -> list[Finding]:
    if ("tls-full", PRODUCT) not in results:
        return []
    ours, stock = results["tls-full", PRODUCT], results["tls-full", STOCK]
    cpu = stock.microseconds("radiusd") / ours.microseconds("radiusd")
    return [
        Finding(
            "P2", "full EAP-TLS 1.3 handshakes/s, relative to stock", ours.rate / stock.rate, "x", 1.2, at_least=True
        ),
        Finding("P2", "full handshakes per CPU second of radiusd, relative to stock", cpu, "x", 1.2, at_least=True),
    ]


def _reconnects(results: Results) -> list[Finding]:
    if ("tls-mix", PRODUCT) not in results:
        return []
    ours = results["tls-mix", PRODUCT]
    kinds = ours.total.tallies
    resumed = kinds[RESUMED].right if RESUMED in kinds else 0
    in_vain = kinds[FALLEN_BACK].finished if FALLEN_BACK in kinds else 0
    share = 100 * resumed / max(resumed + in_vain, 1)
    milliseconds = ours.microseconds("radiusd") / 1000
    return [
        Finding("P3", "share of reconnects with TLS 1.3 that were resumed", share, " %", 99, at_least=True),
        Finding("P3", "radiusd's CPU time per EAP-TLS, 1 full : 9 resumed", milliseconds, " ms", 0.8, at_least=False),
    ]


def _accounting(results: Results, steady: SteadyAccounting | None) -> list[Finding]:
    if ("acct", PRODUCT) not in results:
        return []
    ours, sql = results["acct", PRODUCT], results["acct", RLM_SQL]
    rate = "accounting rate including storage in PostgreSQL, relative to FreeRADIUS with rlm_sql"
    found = [
        Finding("P4", rate, ours.stored_rate / sql.rate, "x", 6, at_least=True),
        Finding(
            "P4",
            "rate of acknowledged accounting, relative to FreeRADIUS with rlm_sql",
            ours.rate / sql.rate,
            "x",
            6,
            at_least=True,
        ),
    ]
    if steady is not None:
        before, after = steady.backlog_bytes
        what = (
            f"rows/s arriving in PostgreSQL while {steady.acknowledged_per_second:,.0f}/s are acknowledged"
            f" (journal behind by {before / 1e6:.1f} MB, then {after / 1e6:.1f} MB)"
        )
        found.append(Finding("P4", what, steady.arrived_per_second, "/s", 15_000, at_least=True))
    return found
