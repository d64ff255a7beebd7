"""Output of a benchmark: a table of results with details, or JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from loadtest.findings import Finding
from loadtest.systems import Results, WorkResult

_COLUMNS = (
    "work",
    "system",
    "right/s",
    "rounds",
    "stored/s",
    "p50 ms",
    "p99 ms",
    "CPU us per answer",
    "wrong",
    "silent",
)


def table(results: Results) -> str:
    rows = [_COLUMNS, *(_row(result) for result in results.values())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(result: WorkResult) -> Sequence[str]:
    total = result.total
    latencies = [tally.latency for tally in total.tallies.values()]
    slowest = max(latencies, key=lambda latency: latency.percentile(0.99))
    commonest = max(latencies, key=lambda latency: latency.count)
    rates = [sample.rate for sample in result.samples]
    return (
        result.work,
        result.system,
        f"{result.rate:,.0f}",
        f"{min(rates):,.0f}-{max(rates):,.0f}",
        f"{result.stored_rate:,.0f}",
        f"{commonest.percentile(0.5) * 1e3:.2f}",
        f"{slowest.percentile(0.99) * 1e3:.2f}",
        " + ".join(f"{result.microseconds(role):.0f} {role}" for role in result.roles),
        str(sum(tally.wrong.total() for tally in total.tallies.values())),
        str(sum(tally.unanswered for tally in total.tallies.values())),
    )


def details(results: Results) -> Iterable[str]:
    """Yield lines about kinds of exchanges (if a workload has several), retransmissions, late replies and faults."""
    for result in results.values():
        total = result.total
        if len(total.tallies) > 1:
            shares = ", ".join(f"{kind} {tally.finished:,}" for kind, tally in sorted(total.tallies.items()))
            yield f"{result.work} on {result.system}: {shares}"
        if total.retransmissions or total.late:
            lost = f"{total.retransmissions} retransmissions, {total.late} late replies"
            yield f"{result.work} on {result.system}: {lost}"
        for fault, count in total.faults().most_common(5):
            yield f"{result.work} on {result.system}: {count} x {fault}"


def as_json(results: Results, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "results": [_result_json(result) for result in results.values()],
        "targets": [asdict(finding) | {"met": finding.met} for finding in findings],
    }


def _result_json(result: WorkResult) -> dict[str, Any]:
    return {
        "work": result.work,
        "system": result.system,
        "right_per_second": result.rate,
        "stored_per_second": result.stored_rate,
        "rounds_per_second": [sample.rate for sample in result.samples],
        "cpu_microseconds_per_answer": {role: result.microseconds(role) for role in result.roles},
        "classes": {
            kind: {
                "right": tally.right,
                "wrong": dict(tally.wrong),
                "unanswered": tally.unanswered,
                "p50_seconds": tally.latency.percentile(0.5),
                "p99_seconds": tally.latency.percentile(0.99),
                "max_seconds": tally.latency.max_seconds,
            }
            for kind, tally in result.total.tallies.items()
        },
    }
