"""Counts the rows and blocks that PostgreSQL reads for each list of the API.

Other work on the machine does not change these numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
from fastapi import FastAPI
from psycopg import sql
from sqlalchemy import Engine, event

from loadtest.api.list_requests import ListRequest, iterate_list_requests

# Reading a smaller table completely is fast enough.
SMALL_ROWS = 5_000
# Endings of the names of tables whose rows are not counted: for the groups of a page's rows, PostgreSQL may read more
# rows than the page needs.
_GROUPS = ("_groups", "_group_members")
_VALUES = """
SELECT t.slug AS tenant, t.id::text AS id, t.msp_id::text AS msp_id, s.mac::text AS mac, s.mac::text AS mac_with_colons,
    s.identity AS user, s.session_id, host(s.framed_ip) AS address,
    to_char(now() - interval '3 days', %(moment)s) AS days_ago,
    to_char(now() - interval '1 minute', %(moment)s) AS a_minute_ago
FROM tenants t JOIN sessions s ON s.tenant_id = t.id
WHERE t.slug = %(slug)s AND s.stopped_at IS NULL ORDER BY s.id LIMIT 1
"""
_MOMENT = 'YYYY-MM-DD"T"HH24:MI:SS"Z"'
Values = Mapping[str, str]
# JSON of PostgreSQL's EXPLAIN.
ExplainOutput = dict[str, Any]


@dataclass(frozen=True)
class ReadCost:
    asking: ListRequest
    tenant: str
    items: int
    # Number of rows that the most expensive statement read, including rows that did not match. Excludes rows of groups.
    rows: int
    # Number of blocks that all statements read.
    blocks: int
    milliseconds: float
    # Tables above SMALL_ROWS that were read completely.
    scanned: frozenset[str]


def read_tenant_values(superuser_url: str, slug: str) -> Values:
    with psycopg.connect(superuser_url, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        row = connection.execute(_VALUES, {"slug": slug, "moment": _MOMENT}).fetchone()
    assert row is not None, slug
    return row


def measure_read_costs(
    app: FastAPI,
    client: httpx.Client,
    tenants: Sequence[Values],
    wanted: Callable[[ListRequest], bool] = lambda _: True,
) -> Iterator[ReadCost]:
    """Query the lists that `wanted` selects: lists of tenants for each tenant, all other lists once."""
    engine: Engine = app.state.engine
    for asking in filter(wanted, iterate_list_requests(app.openapi())):
        for values in tenants if asking.is_tenants else tenants[:1]:
            with _record_plans(engine) as plans:
                answer = client.get(asking.of(values))
            # Skip the list: the sample object of the request, such as a site, may not exist. Or the list may require a
            # person.
            if answer.status_code in (403, 404):
                continue
            assert answer.status_code == 200, (asking.name, answer.text)
            told = answer.json()
            items = len(told.get("items", ())) if isinstance(told, dict) else len(told)
            yield _sum_read_cost(asking, values, plans, items)


def _sum_read_cost(asking: ListRequest, values: Values, plans: Sequence[ExplainOutput], items: int) -> ReadCost:
    most, blocks, milliseconds = 0, 0, 0.0
    scanned: set[str] = set()
    for explained in plans:
        plan = explained["Plan"]
        read = {node["Relation Name"]: 0 for node in _nodes(plan) if "Relation Name" in node}
        for node in _nodes(plan):
            if "Relation Name" in node:
                number = _rows(node)
                read[node["Relation Name"]] += number
                if node["Node Type"] == "Seq Scan" and number > SMALL_ROWS:
                    scanned.add(node["Relation Name"])
        most = max(most, sum(number for name, number in read.items() if not name.endswith(_GROUPS)))
        blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        milliseconds += explained["Execution Time"] + explained["Planning Time"]
    return ReadCost(asking, values["tenant"], items, most, blocks, milliseconds, frozenset(scanned))


def _rows(node: Mapping[str, Any]) -> int:
    removed = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


@contextmanager
def _record_plans(engine: Engine) -> Iterator[list[ExplainOutput]]:
    """Collect the plans of all queries in the `with` block.

    PostgreSQL explains each query with the settings and scope of the query's transaction.
    """
    plans: list[ExplainOutput] = []

    def note(connection: Any, cursor: object, statement: str, parameters: Any, *_: object) -> None:  # noqa: ANN401
        if statement.startswith(("SELECT", "WITH")) and "set_config" not in statement:
            explain = sql.SQL("EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) {}").format(sql.SQL(statement))
            row = connection.connection.driver_connection.execute(explain, parameters).fetchone()
            plans.append(row[0][0])

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield plans
    finally:
        event.remove(engine, "before_cursor_execute", note)
