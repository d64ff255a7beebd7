"""Measures Admit with as many sessions as a carrier has.

The commands measure accounting (`preloaded`, `detail`), session queries (`queries`), and the effect of the worker's
jobs on authentication at full load (`background`). Prints a Markdown table or JSON. The exit status is 1 if a
measurement failed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from loadtest.carrier.background import DEFAULT_JOBS, measure_background
from loadtest.carrier.detail import DETAILS, DetailStream
from loadtest.carrier.queries import Row, measure_queries, print_rows
from loadtest.carrier.shipping import WORKS, run_turns, start_contenders
from loadtest.micro.journal_records import RECORDS_PER_SESSION
from loadtest.processes import BenchError
from nac.kit.errors import AdmitError
from radius.agent.shipping.streams import AccountingStream

_LEVELS = "0,250k,500k,1M,2M,4M"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        rows = _COMMANDS[options.command](options)
    except (BenchError, AdmitError) as error:
        print(f"carrier: {error}", file=sys.stderr)
        return 1
    print_rows(rows, as_json=options.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.carrier", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    preloaded = commands.add_parser("preloaded", help="P9: accounting rate for several numbers of live sessions")
    preloaded.add_argument("--levels", type=_numbers, default=_numbers(_LEVELS), help=f"default: {_LEVELS}")
    detail = commands.add_parser("detail", help="accounting rate for several numbers of attributes in the log")
    detail.add_argument("--live", type=_number, default=0, help="existing live sessions (default none)")
    for command in (preloaded, detail):
        command.add_argument(
            "--works", default=",".join(WORKS), help=f"kinds of work: {', '.join(WORKS)} (default all)"
        )
        command.add_argument(
            "--records", type=_number, default=100_000, help="records in each measurement (default 100k)"
        )
        command.add_argument("--rounds", type=int, default=3)
    queries = commands.add_parser("queries", help="P10: session queries by user, MAC address, NAS and address")
    queries.add_argument("--live", type=_number, default=1_000_000, help="live sessions (default: 1M)")
    queries.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="seconds for each kind of query, and for all kinds together (default 10)",
    )
    queries.add_argument("--processes", type=int, default=2)
    background = commands.add_parser("background", help="p99 of authentication while the worker is busy")
    background.add_argument("--jobs", default=",".join(DEFAULT_JOBS), help="jobs of the worker (default %(default)s)")
    background.add_argument("--tenants", type=int, default=100, help="tenants with data (default 100)")
    background.add_argument(
        "--live", type=_number, default=1_000_000, help="total of live sessions of these tenants (default 1M)"
    )
    background.add_argument(
        "--seconds", type=float, default=10.0, help="length of each measurement in seconds (default 10)"
    )
    background.add_argument("--rounds", type=int, default=4)
    background.add_argument("--per-second", type=float, help="authentication requests per second (default: no limit)")
    background.add_argument("--pause", type=float, default=0.0, help="seconds between two runs of a job (default: 0)")
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _number(text: str) -> int:
    """Parse a number such as 4M, 250k or 100."""
    scale = {"k": 1_000, "M": 1_000_000}.get(text[-1:], 1)
    return int(text[:-1] if scale > 1 else text) * scale


def _numbers(text: str) -> list[int]:
    return [_number(each) for each in text.split(",")]


def _choose(text: str, known: Sequence[str]) -> list[str]:
    asked = [each.strip() for each in text.split(",")]
    if unknown := [each for each in asked if each not in known]:
        raise BenchError(f"Unknown {unknown[0]!r}. Choose from {', '.join(known)}.")
    return [each for each in known if each in asked]


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _preloaded(options: argparse.Namespace) -> list[Row]:
    return _ship(options, [(f"{level:,}", level, AccountingStream()) for level in options.levels])


def _detail(options: argparse.Namespace) -> list[Row]:
    return _ship(options, [(detail, options.live, DetailStream(detail)) for detail in DETAILS])


def _ship(options: argparse.Namespace, plans: Sequence[tuple[str, int, AccountingStream]]) -> list[Row]:
    count = max(1, options.records // RECORDS_PER_SESSION) * RECORDS_PER_SESSION
    works = [work for work in WORKS if work in _choose(options.works, WORKS)]
    with start_contenders(plans, log_line=_log) as made:
        return run_turns(made, works, rounds=options.rounds, count=count, log_line=_log)


def _queries(options: argparse.Namespace) -> list[Row]:
    return measure_queries(options.live, seconds=options.seconds, processes=options.processes, log_line=_log)


def _background(options: argparse.Namespace) -> list[Row]:
    return measure_background(
        options.jobs.split(","),
        tenants=options.tenants,
        live=options.live,
        seconds=options.seconds,
        rounds=options.rounds,
        pause=options.pause,
        per_second=options.per_second,
        log_line=_log,
    )


_COMMANDS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "preloaded": _preloaded,
    "detail": _detail,
    "queries": _queries,
    "background": _background,
}

if __name__ == "__main__":
    sys.exit(main())
