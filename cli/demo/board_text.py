"""Text of the board (the demo's table of results), with next steps."""

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import click

from cli.demo.board import Board, CheckResult

RESET_HINT = (
    "To delete and recreate the demo's tenants: ./admit demo --reset\nTo start without the demo: ./admit up --no-demo"
)
_WIDEST = 48
# Width of the table.
_LINE = 140


def render_board(board: Board) -> str:
    return "\n".join([*_table(board), *_help_desk(board), "", *_summary(board), "", *_next_steps(board)])


def _table(board: Board) -> Iterator[str]:
    cells = [(row, _cells(row)) for row in board.rows]
    widths = [max(map(len, column)) for column in zip(_HEAD, *(texts for _, texts in cells), strict=True)]
    for tenant in board.tenants:
        yield click.style(f"tenant {tenant['slug']}", bold=True)
        yield click.style(_line("    ", _HEAD, widths), dim=True)
        for row, texts in cells:
            if row.tenant == tenant["slug"]:
                yield _line(_MARKS[row.ok], texts, widths)
                if not row.ok:
                    yield from _complaint(row)
        yield ""


# The table contains the actual results. If an expected result differs, a separate line contains the expected result.
_HEAD = ("check", "sent", "got", "reason in auth_log", "ms")
_MARKS = {True: click.style("ok  ", fg="green"), False: click.style("FAIL", fg="red")}


def _cells(row: CheckResult) -> tuple[str, ...]:
    got = row.got if len(row.got) <= _WIDEST else f"{row.got[: _WIDEST - 3]}..."
    return row.name, row.sent, got, row.reason or "-", str(row.milliseconds)


def _line(mark: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=False)]
    return "  ".join([mark, *padded, cells[-1].rjust(widths[-1])])


def _complaint(row: CheckResult) -> Iterator[str]:
    reason = f", reason {row.expected_reason}" if row.expected_reason else ""
    yield click.style(f"      expected: {row.expected}{reason}", fg="red")
    if len(row.got) > _WIDEST:
        yield f"      got: {row.got}"
    if row.detail:
        yield f"      detail: {row.detail}"


def _help_desk(board: Board) -> Iterator[str]:
    """Return title and advice of every reason for a reject."""
    advice = {row.reason: f"{row.title}. {row.advice}" for row in board.rows if row.advice}
    width = max(map(len, advice), default=0)
    yield "Advice for a help desk about the rejects (./admit decisions -t TENANT):"
    for reason, sentence in advice.items():
        yield textwrap.fill(
            sentence, _LINE, initial_indent=f"  {reason:<{width}}  ", subsequent_indent=" " * (width + 4)
        )


def _summary(board: Board) -> Iterator[str]:
    wrong = sum(not row.ok for row in board.rows)
    if wrong:
        yield click.style(f"{wrong} of {len(board.rows)} checks are not as expected ({board.at}).", fg="red", bold=True)
    else:
        yield click.style(f"All {len(board.rows)} checks are as expected ({board.at}).", fg="green", bold=True)
    for name in board.left_out:
        yield f"Only in ./admit demo, because it takes half a minute: {name}."


def render_differences(board: Board) -> str:
    """Return the text to show after a start: the checks with unexpected results, and how to reset the demo."""
    wrong = [f"  {row.tenant}, {row.name}, {row.sent}" for row in board.rows if not row.ok]
    return "\n".join(
        (
            "",
            "Admit is running. These checks have unexpected results, usually because the demo tenants were changed:",
            *wrong,
            RESET_HINT,
        )
    )


def _next_steps(board: Board) -> Iterator[str]:
    for tenant in board.tenants:
        yield f"tenant {tenant['slug']}"
        yield (
            f"  RADIUS      {tenant['radius_host']}, authentication UDP {tenant['auth_port']}, "
            f"accounting UDP {tenant['acct_port']}, secret {tenant['radius_secret']}"
        )
        yield f"  EAP-TLS     {tenant['client_identity']}: {tenant['client_cert']}, {tenant['client_key']}"
        yield f"              trusts {tenant['ca_pem']} and expects {tenant['server_name']}"
        yield f"  MAB         {tenant['mac_permit']} is a printer, {tenant['mac_unknown']} is unknown"
        yield f"  PAP, CHAP   {tenant['user_name']}, password {tenant['user_password']}"
    yield f"API           {board.api_url}, administrator of the MSP: {board.api_token}"
    yield f"database      {board.database_url}"
    yield ""
    if board.tenants:
        tenant = board.tenants[0]
        yield "Commands to try:"
        yield f"  {eapol_command(tenant)}"
        yield f"  {radclient_command(tenant)}"
        yield f"  {curl_command(board.api_url, tenant)}"


def eapol_command(tenant: dict[str, Any]) -> str:
    """Return a command for EAP-TLS with the tenant's valid certificate."""
    return shlex.join(
        [
            *("eapol_test", "-c", tenant["eapol_test_conf"], "-a", tenant["radius_host"]),
            *("-p", str(tenant["auth_port"]), "-s", tenant["radius_secret"]),
        ]
    )


def curl_command(api_url: str, tenant: dict[str, Any]) -> str:
    """Return a command that lists the tenant's devices as the tenant's administrator."""
    address = f"{api_url}/v1/tenants/{tenant['slug']}/endpoints"
    return shlex.join(["curl", "-s", "-H", f"Authorization: Bearer {tenant['api_token']}", address])


def radclient_command(tenant: dict[str, Any]) -> str:
    """Return a command for MAB with the printer's MAC address."""
    mac, host = tenant["mac_permit"], tenant["radius_host"]
    pairs = f'User-Name = "{mac}", User-Password = "{mac}", Calling-Station-Id = "{mac}", Message-Authenticator = 0x00'
    address = f"[{host}]:{tenant['auth_port']}" if ":" in host else f"{host}:{tenant['auth_port']}"
    return f"echo {shlex.quote(pairs)} | " + shlex.join(["radclient", "-x", address, "auth", tenant["radius_secret"]])
