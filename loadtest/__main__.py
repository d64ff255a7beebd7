"""`python -m loadtest peers`: the peers alone. `python -m loadtest quick`: the running product beside them.

Exit status 0 once everything was measured, whether targets were met or missed; 1 where something could not be measured.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from random import Random

from loadtest import report
from loadtest.peers import freeradius
from loadtest.peers.running import PEERS_OF, running_peers
from loadtest.processes import BenchError
from loadtest.rounds import run_rounds
from loadtest.systems import WORKS

# What `--only` calls the works.
_GROUPS = {"mab": ("mab",), "acct": ("acct",), "tls": ("tls-full", "tls-mix")}
_PEER_DEVICES = 71_000


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.command == "peers":
            _peers(options)
        else:
            from loadtest.quick import quick

            quick(
                _works(options.only), rounds=options.rounds, seconds=options.seconds, as_json=options.json, tell=_tell
            )
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("quick", "the running product against its peers"), ("peers", "the peers alone")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--only", default="mab,acct,tls", help="of mab, acct, tls (default: all)")
        command.add_argument("--seconds", type=_positive, default=4.0, help="length of a round (default: 4)")
        command.add_argument("--rounds", type=int, default=3, choices=range(1, 100), metavar="N", help="default: 3")
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 3600 seconds")
    return value


def _works(only: str) -> list[str]:
    groups = [group.strip() for group in only.split(",") if group.strip()]
    unknown = sorted(set(groups) - set(_GROUPS))
    if unknown or not groups:
        raise BenchError(f"--only {only!r}: choose from {', '.join(_GROUPS)}")
    return [work for work in WORKS if any(work in _GROUPS[group] for group in groups)]


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _peers(options: argparse.Namespace) -> None:
    works = _works(options.only)
    known = [(f"02{number:010x}", str(10 + number % 20)) for number in Random(1).sample(range(1 << 30), _PEER_DEVICES)]
    names = list(dict.fromkeys(name for work in works for name in PEERS_OF[work]))
    _tell(f"FreeRADIUS {freeradius.version()}, {_PEER_DEVICES:,} devices")
    with running_peers(names, known) as peers:
        plan = {work: [peers[name] for name in PEERS_OF[work]] for work in works}
        results = run_rounds(plan, rounds=options.rounds, seconds=options.seconds, tell=_tell)
    if options.json:
        print(json.dumps(report.as_json(results, ()), indent=1))
        return
    print(report.table(results))
    for line in report.details(results):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
