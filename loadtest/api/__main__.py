"""Load tests of the API on a private installation with test data. Usage: python -m loadtest.api COMMAND.

* logs: response times of lists and searches in an auth log of one year (p50, p95, p99 and maximum). Also reports
  whether PostgreSQL reads a whole partition.
* routes: requests per second, p99 and SQL statements for each list, with 64 concurrent clients.
* sessions: time of queries for live sessions by user, MAC address, NAS and IP address.
* lists: rows and blocks that PostgreSQL reads for each list of the API, with each filter and each order.
"""

import argparse
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from fastapi import FastAPI

from api.main import create_app
from loadtest.api import data_set, http_load, plans, read_costs
from loadtest.api.searches import Search, log_searches, other_lists
from loadtest.private_installation import PrivateInstallation
from loadtest.processes import BenchError, ProcessTree, cpu_seconds
from nac.kit.errors import AdmitError
from nac.kit.ids import TenantId
from nac.kit.settings import Settings
from tests.api.app_server import serve_app

_TARGET_MILLISECONDS = 150.0
_MAX_REQUESTS = 100
# The machine counts as idle if the load average of the last minute is below this value.
_CALM_LOAD_AVERAGE = 1.0
_WITHOUT_LIMITS = {"API_REQUESTS_PER_MINUTE": "0", "API_OWNER_REQUESTS_PER_MINUTE": "0"}


@dataclass(frozen=True)
class ApiBench:
    private: PrivateInstallation
    tenants: data_set.TenantRows
    token: str
    superuser_url: str

    @property
    def settings(self) -> Settings:
        return self.private.settings

    @property
    def port(self) -> int:
        return self.settings.api_port


@contextmanager
def bench(tenants: int) -> Iterator[ApiBench]:
    with PrivateInstallation(AUTHORITY_KEY_STORE="sealed", **_WITHOUT_LIMITS) as private:
        superuser = private.settings.database_owner_url.replace("admit_owner", "postgres", 1)
        made = data_set.make_tenants(superuser, tenants)
        token = data_set.make_platform_token(private.installation.engine)
        yield ApiBench(private, made, token, superuser)


def logs(options: argparse.Namespace) -> None:
    with bench(options.tenants) as each:
        data_set.fill_auth_log(each.superuser_url, each.tenants, rows=options.rows, days=options.days, log_line=_log)
        _wait_for_calm(options.patience)
        used = data_set.auth_log_sizes(each.superuser_url)
        print(
            f"{options.rows:,} rows of {options.tenants} tenants in {options.days} days: {used['rows'] / 1e9:.1f} GB "
            f"of rows ({used['rows'] / options.rows:.0f} bytes each), {used['indexes'] / 1e9:.1f} GB of indexes"
        )
        asked = sorted({1, 2, options.tenants // 2 or 1, options.tenants})
        print(
            "| tenant | search | statements | partitions at once | planning ms | executing | p50 ms | p95 | p99 | most "
            f"| requests until found or all was searched, {_MAX_REQUESTS} at most | ms |\n|" + "---|" * 12
        )
        whole = http_load.RequestTimings()
        with _open_explainer(each) as explain:
            for number in asked:
                slug, tenant_id = each.tenants.slugs[number - 1], TenantId(each.tenants.ids[number - 1])
                for search in log_searches(slug, number, options.days):
                    timing = _measure_search(each, search, options.rounds)
                    whole.milliseconds += timing.milliseconds
                    found = explain(search.path, tenant_id)
                    percentiles = " | ".join(f"{timing.at(share):.1f}" for share in (0.5, 0.95, 0.99, 1))
                    turns, walked = http_load.count_requests_until_found(
                        each.port, each.token, search.path, most=_MAX_REQUESTS
                    )
                    print(
                        f"| {slug} | {search.name} | {found.statements} | {found.most_partitions} "
                        f"| {found.planning:.1f} | {found.executing:.1f} | {percentiles} | {turns} | {walked:.0f} |"
                    )
                    if found.scanned:
                        print(f"  read completely: {', '.join(sorted(found.scanned))}")
        p95 = whole.at(0.95)
        verdict = "met" if p95 < _TARGET_MILLISECONDS else "missed"
        print(f"all: p50 {whole.at(0.5):.1f} ms, p95 {p95:.1f} ms (target {_TARGET_MILLISECONDS:.0f}: {verdict})")
        for milliseconds, path in whole.worst:
            print(f"  {milliseconds:.1f} ms: {path}")


def routes(options: argparse.Namespace) -> None:
    with bench(options.tenants) as each:
        data_set.fill_auth_log(each.superuser_url, each.tenants, rows=options.rows, days=options.days, log_line=_log)
        data_set.fill_sessions(each.superuser_url, each.tenants, rows=options.live)
        slug, tenant_id = each.tenants.slugs[0], TenantId(each.tenants.ids[0])
        newest = log_searches(slug, 1, options.days)[0]
        searches = [replace(newest, name="decisions"), *other_lists(slug)]
        searches.append(Search("tenant itself", f"/v1/tenants/{slug}/sites/main"))
        print("| route | statements | rate /s | p50 ms | p99 | CPU ms of a request: api | PostgreSQL |\n|" + "---|" * 7)
        with _open_explainer(each) as explain:
            for search in searches:
                statements = explain(search.path, tenant_id).statements
                figures = _measure_load(each, itertools.repeat(search.path), options)
                print(f"| {search.name} | {statements} | {figures} |")


def sessions(options: argparse.Namespace) -> None:
    with bench(options.tenants) as each:
        data_set.fill_sessions(each.superuser_url, each.tenants, rows=options.live)
        slug = each.tenants.slugs[0]
        most = int(options.live * (each.tenants.shares or [1.0])[0]) - 1

        def paths(query: Callable[[int], str]) -> Iterator[str]:
            while True:
                yield f"/v1/tenants/{slug}/sessions?{query(random.randint(1, most))}"

        print("| by | rate /s | p50 ms | p99 | CPU ms of a request: api | PostgreSQL |\n|" + "---|" * 6)
        for name, query in _SESSION_QUERIES.items():
            print(f"| {name} | {_measure_load(each, paths(query), options)} |")


def lists(options: argparse.Namespace) -> None:
    with bench(options.tenants) as each:
        data_set.fill_lists(each.superuser_url, each.tenants, share=options.share, log_line=_log)
        asked = [read_costs.read_tenant_values(each.superuser_url, each.tenants.slugs[number]) for number in (0, 29)]
        worst: dict[tuple[str, str], read_costs.ReadCost] = {}
        with _open_client(each) as (app, client):
            for found in read_costs.measure_read_costs(app, client, asked):
                key = found.asking.operation, found.tenant if found.asking.is_tenants else "-"
                if key not in worst or found.rows > worst[key].rows:
                    worst[key] = found
        print("| list | tenant | query | rows read | blocks | ms | tables read completely |\n|" + "---|" * 7)
        for (operation, tenant), found in sorted(worst.items(), key=lambda item: -item[1].rows):
            query = " ".join("=".join(pair) for pair in found.asking.query)
            print(
                f"| {operation} | {tenant} | {query} | {found.rows:,} | {found.blocks:,} | {found.milliseconds:.1f} "
                f"| {', '.join(sorted(found.scanned))} |"
            )


_SESSION_QUERIES: dict[str, Callable[[int], str]] = {
    "user": lambda number: f"user=user-{number}%40example.com",
    "MAC address": lambda number: f"mac={number:012x}",
    "NAS, the newest 20": lambda number: f"nas=switch-{1 + number % 20}&limit=20",
    "address": lambda number: f"address=10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
}


def _measure_load(each: ApiBench, paths: Iterator[str], options: argparse.Namespace) -> str:
    trees = {"api": ProcessTree(_listener(each.port)), "postgres": each.private.installation.processes()["postgres"]}
    http_load.run_load(each.port, each.token, lambda: next(paths), clients=options.clients, seconds=1)
    before = {name: cpu_seconds(tree) for name, tree in trees.items()}
    timing = http_load.run_load(
        each.port, each.token, lambda: next(paths), clients=options.clients, seconds=options.seconds
    )
    timing.require_success()
    used = {name: (cpu_seconds(tree) - before[name]) / len(timing.milliseconds) * 1000 for name, tree in trees.items()}
    return (
        f"{timing.rate:.0f} | {timing.at(0.5):.1f} | {timing.at(0.99):.1f} | {used['api']:.2f} | {used['postgres']:.2f}"
    )


def _measure_search(each: ApiBench, search: Search, rounds: int) -> http_load.RequestTimings:
    left = iter([search.path] * rounds)
    timing = http_load.run_load(each.port, each.token, lambda: next(left, None), clients=1)
    timing.require_success()
    return timing


@contextmanager
def _open_explainer(each: ApiBench) -> Iterator[Callable[[str, TenantId], plans.RequestPlans]]:
    with _open_client(each) as (app, client):
        yield lambda path, tenant_id: plans.explain_request(app, client, path, tenant_id)


@contextmanager
def _open_client(each: ApiBench) -> Iterator[tuple[FastAPI, httpx.Client]]:
    app = create_app(each.settings)
    with serve_app(app) as client:
        client.headers["Authorization"] = f"Bearer {each.token}"
        # Open a connection for each request: the server may close an idle connection between two requests.
        client.headers["Connection"] = "close"
        client.timeout = 60.0  # type: ignore[assignment]
        yield app, client


def _listener(port: int) -> int:
    """Return the process that listens on the port (/proc/net/tcp, proc(5)).

    If several processes listen, returns the parent, which has the lowest id.
    """
    inodes = {
        fields[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if (fields := line.split())[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
    }
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda found: int(found.name)):
        try:
            if any(link.readlink().name[8:-1] in inodes for link in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue
    raise BenchError(f"No process listens on port {port}.")


def _wait_for_calm(minutes: float) -> None:
    """Wait up to `minutes` until the machine is idle, because other work distorts the results."""
    deadline = time.monotonic() + minutes * 60
    while os.getloadavg()[0] > _CALM_LOAD_AVERAGE and time.monotonic() < deadline:
        time.sleep(10)
    _log(f"load average {os.getloadavg()[0]:.1f}")


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


_COMMANDS = {"logs": logs, "routes": routes, "sessions": sessions, "lists": lists}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.api", description=__doc__)
    parser.add_argument("command", choices=tuple(_COMMANDS))
    parser.add_argument("--rows", type=int, default=10_000_000, help="number of rows of the auth log")
    parser.add_argument("--days", type=int, default=365, help="number of days in the auth log")
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--live", type=int, default=1_000_000, help="number of live sessions")
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="for the command lists: factor for the numbers of rows (default 1: 300,000 endpoints)",
    )
    parser.add_argument("--patience", type=float, default=0.0, help="minutes to wait for an idle machine")
    parser.add_argument("--rounds", type=int, default=20, help="number of repetitions of each search")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of load on each route")
    options = parser.parse_args()
    try:
        _COMMANDS[options.command](options)
    except (BenchError, AdmitError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
