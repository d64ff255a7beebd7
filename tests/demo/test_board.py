"""Each row of the demo's result table matches exactly or is wrong. One wrong row makes the exit status 1."""

from dataclasses import replace
from typing import Any

import pytest

from cli.command_context import CommandContext
from cli.demo.board import Board, compare_result, read_last_board, run_board, run_checks
from cli.demo.board_text import render_board
from cli.demo.checks import Check, Evidence, Observation
from cli.demo.main import show_after_start, show_board, show_last_board
from cli.demo.tools import ToolFailed
from cli.errors import Refused
from cli.operation_commands import render_advice
from nac.engine.reasons import REASONS
from nac.models import AuthLog


def decided(reason: str, **values: Any) -> AuthLog:
    made = {"detail": "", "resumed": False, "permitted": reason.endswith("-permitted")}
    return AuthLog(reason=reason, **made | values)


def check(**values: Any) -> Check:
    made: dict[str, Any] = {
        "tenant": "alpha",
        "name": "MAB by PAP",
        "sent": "printer",
        "expected": "permit VLAN 20",
        "reason": "rule-permitted",
        "act": lambda mark: Observation("permit VLAN 20", 0.012),
    }
    return Check(**made | values)


GOOD = Observation("permit VLAN 20", 0.0123)
PERMITTED = Evidence([decided("rule-permitted")])
SILENT = check(expected="silence", reason="", records=0, act=lambda mark: Observation("silence", 0.1))


@pytest.mark.parametrize(
    ("seen", "evidence", "reason"),
    [
        (Observation("permit VLAN 21", 0.1), PERMITTED, "rule-permitted"),
        (Observation("permit", 0.1), PERMITTED, "rule-permitted"),
        (Observation("silence", 0.1), PERMITTED, "rule-permitted"),
        (GOOD, Evidence([decided("fallback-permitted")]), "fallback-permitted"),
        (GOOD, Evidence(), "(0 of 1 rows)"),
        (GOOD, Evidence([decided("rule-permitted")] * 2), "rule-permitted (2 of 1 rows)"),
    ],
)
def test_row_with_any_difference_is_wrong(seen: Observation, evidence: Evidence, reason: str) -> None:
    row = compare_result(check(), seen, evidence)
    assert (row.ok, row.reason) == (False, reason)


def test_rejected_row_has_the_help_desk_advice() -> None:
    row = compare_result(check(), GOOD, Evidence([decided("unknown-mac")]))
    assert (row.title, row.advice) == (REASONS["unknown-mac"].title, render_advice(REASONS["unknown-mac"].advice))
    told = render_board(replace(board(GOOD), rows=(row,)))
    assert f"unknown-mac  Unknown device. {row.advice}"[:100] in told
    permitted = compare_result(check(), GOOD, PERMITTED)
    assert (permitted.title, permitted.advice) == ("", "")


def test_database_values_and_timeouts_are_compared_too() -> None:
    row = compare_result(SILENT, Observation("silence", 2.0), Evidence([decided("unknown-mac")]))
    assert (row.ok, row.reason) == (False, "unknown-mac (1 of 0 rows)")
    assert compare_result(SILENT, Observation("silence", 2.0), Evidence()).ok
    resumed = check(
        expected="permit VLAN 20, 1 resumed", describe=lambda evidence: f", {len(evidence.decisions)} resumed"
    )
    assert compare_result(resumed, GOOD, PERMITTED).ok


@pytest.mark.usefixtures("seeded")
def test_failing_tool_affects_only_its_row(domain: CommandContext) -> None:
    def fail(mark: str) -> Observation:
        raise ToolFailed("It did not end within 3 s.", place="eapol_test")

    broken, good = run_checks(domain, [check(act=fail, records=0), SILENT])
    assert (broken.ok, broken.got) == (False, "error: eapol_test: It did not end within 3 s.")
    assert good.ok


def board(*seen: Observation) -> Board:
    tenant = {
        "slug": "alpha",
        "auth_port": 18120,
        "acct_port": 18121,
        **dict.fromkeys(
            (
                *("radius_host", "radius_secret", "api_token", "ca_pem", "client_cert", "client_key"),
                *("client_identity", "server_name", "eapol_test_conf", "mac_permit", "mac_unknown"),
                *("user_name", "user_password"),
            ),
            "x",
        ),
    }
    rows = tuple(compare_result(check(), one, PERMITTED) for one in seen)
    return Board(rows, (tenant,), "http://x", "admit_x", "postgresql://x", "2026-01-01")


@pytest.mark.parametrize("as_json", [True, False])
def test_exit_status_is_zero_only_if_every_row_matches(as_json: bool) -> None:
    for seen, status in (((GOOD, GOOD), 0), ((GOOD, Observation("reject", 1.0)), 1), ((), 1)):
        assert show_board(board(*seen), as_json=as_json) == status


@pytest.mark.usefixtures("seeded")
def test_start_lists_wrong_rows_and_the_remedy(
    domain: CommandContext, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = check(sent="stolen printer", expected="reject")
    monkeypatch.setattr("cli.demo.checks.PATIENCE_SECONDS", 0)
    monkeypatch.setattr("cli.demo.board.PATIENCE_SECONDS", 0)
    for checks, differing in (([changed, SILENT], True), ([SILENT], False)):
        monkeypatch.setattr("cli.demo.board.all_checks", lambda demo, checks=checks: checks)
        show_after_start()
        told = capsys.readouterr().out.partition("Admit is running.")[2]
        assert ("  alpha, MAB by PAP, stolen printer\n" in told) == differing
        assert ("./admit demo --reset" in told) == differing


def test_start_explains_why_the_demo_is_unavailable(
    domain: CommandContext, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(domain: CommandContext) -> None:
        raise Refused("There is a tenant 'alpha' of another MSP.")

    monkeypatch.setattr("cli.demo.board.seed", refuse)
    show_after_start()
    assert "Admit is running, but the demo failed: There is a tenant 'alpha'" in capsys.readouterr().out


def test_wrong_row_shows_the_expected_values() -> None:
    lines = render_board(board(Observation("reject", 1.0))).splitlines()
    wrong = next(index for index, line in enumerate(lines) if "FAIL" in line)
    assert "expected: permit VLAN 20, reason rule-permitted" in lines[wrong + 1]
    assert any("1 of 1 checks are not as expected" in line for line in lines)


def test_only_a_successful_board_is_shown_again(domain: CommandContext, capsys: pytest.CaptureFixture[str]) -> None:
    file = domain.settings.var_dir / "demo" / "board.json"
    assert read_last_board(domain.settings) is None
    assert not show_last_board(domain.settings)
    file.parent.mkdir()
    file.write_text(board(GOOD).to_json())
    assert read_last_board(domain.settings) == board(GOOD)
    assert show_last_board(domain.settings)
    assert "All 1 checks are as expected" in capsys.readouterr().out
    file.write_text(board(Observation("reject", 1.0)).to_json())
    assert not show_last_board(domain.settings)
    file.write_text('{"rows": [')
    assert read_last_board(domain.settings) is None


@pytest.mark.usefixtures("seeded")
def test_quick_board_names_the_skipped_checks(domain: CommandContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.demo.board.all_checks", lambda demo: [SILENT, replace(SILENT, recorded_after_seconds=30)])
    found = run_board(domain, with_long=False)
    assert len(found.rows) == 1
    assert found.left_out == ("alpha, MAB by PAP: printer",)
    assert read_last_board(domain.settings) == found
    assert "Only in ./admit demo, because it takes half a minute: alpha, MAB by PAP: printer." in render_board(found)
    assert len(run_board(domain, with_long=True).rows) == 2
