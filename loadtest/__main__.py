"""Benchmarks.

`quick` compares Admit with FreeRADIUS. `cell` measures radiusd without the rest of Admit. `peers` measures only
FreeRADIUS.

The exit status is 0 after a complete measurement, even if Admit missed performance targets, and 1 if a measurement
failed.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from loadtest import report
from loadtest.bare_cell import BareCell
from loadtest.findings import Finding
from loadtest.moj import run_moj
from loadtest.peers.peer_systems import PEERS_OF, RLM_SQL, running_peers
from loadtest.processes import BenchError
from loadtest.quick import run_quick
from loadtest.systems import WORKS, Results, run_rounds
from loadtest.tenants import list_known_devices, make_tenants
from nac.kit.errors import AdmitError

# Names of workloads for each value of `--only`.
_GROUPS = {"mab": ("mab", "mab-paced"), "acct": ("acct",), "tls": ("tls-full", "tls-mix")}
_DEFAULT_SLOTS = 32


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        _COMMANDS[options.command][1](options)
    except (BenchError, AdmitError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, _) in _COMMANDS.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("--only", default="mab,acct,tls", help="groups of workloads: mab, acct, tls (default all)")
        command.add_argument(
            "--seconds", type=_positive_number, default=4.0, help="length of a measurement in seconds (default 4)"
        )
        command.add_argument("--rounds", type=int, default=3, choices=range(1, 100), metavar="N", help="default: 3")
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _positive_number(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 3600 seconds")
    return value


def _works(only: str) -> list[str]:
    groups = [group.strip() for group in only.split(",") if group.strip()]
    unknown = sorted(set(groups) - set(_GROUPS))
    if unknown or not groups:
        raise BenchError(f"Invalid --only {only!r}. Choose from {', '.join(_GROUPS)}.")
    return [work for work in WORKS if any(work in _GROUPS[group] for group in groups)]


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _quick(options: argparse.Namespace) -> None:
    results, findings = run_quick(_works(options.only), rounds=options.rounds, seconds=options.seconds, log_line=_log)
    _show(options, results, findings)


def _moj(options: argparse.Namespace) -> None:
    """Measure the data set of NACS (British Ministry of Justice) in a private installation.

    PostgreSQL is stopped while the devices of the measurement authenticate.
    """
    results, findings = run_moj(_works(options.only), rounds=options.rounds, seconds=options.seconds, log_line=_log)
    _show(options, results, findings)


def _peers(options: argparse.Namespace) -> None:
    """Measure only the peers of Admit: FreeRADIUS without and with PostgreSQL."""
    works = _works(options.only)
    with running_peers(_peer_names(works), list_known_devices(make_tenants())) as peers:
        plan = {work: [peers[name] for name in PEERS_OF[work]] for work in works}
        _show(options, run_rounds(plan, rounds=options.rounds, seconds=options.seconds, log_line=_log))


def _cell(options: argparse.Namespace) -> None:
    """Measure a cell's radiusd without PostgreSQL and agent, and stock FreeRADIUS."""
    works = _works(options.only)
    tenants = make_tenants()
    names = [name for name in _peer_names(works) if name != RLM_SQL]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-cell-")))
        cell = stack.enter_context(BareCell(folder, tenants, slots=_DEFAULT_SLOTS)).system()
        peers = stack.enter_context(running_peers(names, list_known_devices(tenants)))
        plan = {work: [cell, *(peers[name] for name in PEERS_OF[work] if name in peers)] for work in works}
        _show(options, run_rounds(plan, rounds=options.rounds, seconds=options.seconds, log_line=_log))


def _peer_names(works: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for work in works for name in PEERS_OF[work]))


def _show(options: argparse.Namespace, results: Results, findings: Sequence[Finding] = ()) -> None:
    if options.json:
        print(json.dumps(report.as_json(results, findings), indent=1))
        return
    for line in (report.table(results), *report.details(results), *map(str, findings)):
        print(line)


_COMMANDS: dict[str, tuple[str, Callable[[argparse.Namespace], None]]] = {
    "quick": ("Admit and FreeRADIUS, with the same workloads", _quick),
    "cell": ("a cell's radiusd without agent and PostgreSQL, and FreeRADIUS without PostgreSQL", _cell),
    "moj": ("the data set of MoJ's NACS in one tenant, PostgreSQL stopped", _moj),
    "peers": ("only the peers", _peers),
}

if __name__ == "__main__":
    sys.exit(main())
