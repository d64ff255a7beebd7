"""The printed result of a target: met or missed, never omitted."""

import json

import pytest

from loadtest import report
from loadtest.eap_tls_client import FALLEN_BACK, FULL, RESUMED
from loadtest.findings import PRODUCT, Finding, SteadyAccounting, judge_targets
from loadtest.peers.peer_systems import RLM_SQL, STOCK
from loadtest.systems import Results, RoundSample, WorkResult
from loadtest.tally import RunResult


def sample(rights: dict[str, int], *, cpu: float, stored_seconds: float = 1.0) -> RoundSample:
    run = RunResult(seconds=1.0)
    for kind, count in rights.items():
        run.tally(kind).right = count
        run.tally(kind).latency.add(0.001)
    return RoundSample(run, stored_seconds, {"radiusd": cpu})


def results(work: str, **systems: RoundSample) -> Results:
    return {(work, name): WorkResult(work, name, [one]) for name, one in systems.items()}


def verdict_of(found: Results, **others: object) -> dict[str, Finding]:
    arguments = {"stored": {}, "steady": None, "changes": None, "footprint": None} | others
    return {finding.what: finding for finding in judge_targets(found, **arguments)}


@pytest.mark.parametrize(
    ("value", "at_least", "met"), [(4.0, True, True), (3.99, True, False), (2.0, False, True), (2.01, False, False)]
)
def test_target_is_met_at_its_limit_and_missed_past_it(value, at_least, met):
    finding = Finding("P1", "rate", value, "x", 4 if at_least else 2, at_least)
    assert finding.met is met
    assert ("MISSED" in str(finding)) is not met


def test_mab_rate_includes_the_time_to_store_the_last_row():
    ours = sample({"mab": 800}, cpu=0.04, stored_seconds=2.0)
    systems = {PRODUCT: ours, RLM_SQL: sample({"mab": 100}, cpu=1), STOCK: sample({"mab": 1000}, cpu=0.03)}
    stored, answers, cpu = judge_targets(
        results("mab", **systems), stored={}, steady=None, changes=None, footprint=None
    )
    assert (stored.value, stored.met) == (4.0, True)
    assert answers.value == 8.0
    # A result of 50 us, compared with 30 us.
    assert cpu.value == pytest.approx(5 / 3)


def test_unresumed_reconnects_count_against_the_share():
    ours = sample({FULL: 10, RESUMED: 98, FALLEN_BACK: 2}, cpu=0.08)
    found = verdict_of(results("tls-mix", **{PRODUCT: ours}))
    share = found["share of reconnects with TLS 1.3 that were resumed"]
    assert (share.value, share.met) == (98.0, False)


def test_steady_accounting_below_the_target_is_missed():
    found = verdict_of(
        results("acct", **{PRODUCT: sample({"acct-start": 600}, cpu=1), RLM_SQL: sample({"acct-start": 100}, cpu=1)}),
        steady=SteadyAccounting(15_400.0, 14_000.0, (0, 5_000_000)),
    )
    steady = next(finding for what, finding in found.items() if "arriving" in what)
    assert (steady.value, steady.met) == (14_000.0, False)
    assert "0.0 MB, then 5.0 MB" in steady.what


def test_table_and_json_show_medians_and_unexpected_results():
    first, second, third = (sample({"mab": count}, cpu=0.1) for count in (100, 300, 200))
    second.run.tally("mab").wrong["reject instead of accept"] = 3
    found = {("mab", "stock"): WorkResult("mab", "stock", [first, second, third])}
    row = report.table(found).splitlines()[1].split("  ")
    assert [cell.strip() for cell in row if cell][:4] == ["mab", "stock", "200", "100-300"]
    assert list(report.details(found)) == ["mab on stock: 3 x mab: reject instead of accept"]
    told = json.loads(json.dumps(report.as_json(found, [Finding("P1", "rate", 1, "x", 4, at_least=True)])))
    assert told["results"][0]["right_per_second"] == 200
    assert told["results"][0]["classes"]["mab"]["wrong"] == {"reject instead of accept": 3}
    assert told["targets"][0]["met"] is False
