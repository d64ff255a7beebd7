"""Requests as the auth log recorded them, in bulk: what a replay runs another policy over.

PostgreSQL takes the attributes that are asked for out of each row, and requests that differ in nothing else come as
the same bytes: whoever reads them remembers what it made of those bytes, and decodes JSON a few thousand times for
millions of rows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import msgspec
from psycopg import sql
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.db import driver_connection
from nac.ids import TenantId
from nac.models import AuthLog
from nac.self_tests.ticket import NAS_IDENTIFIER as SELF_TEST_NAS

Scalar = str | int | bool
Attributes = Mapping[str, tuple[Scalar, ...]]

# Of a row that no policy decided: it has no version. Every request that one decided holds its method.
_ALWAYS = "method"
# 1,000,000 requests take about 25.
MAX_SECONDS = 900
_TIMEOUT = "SELECT set_config('statement_timeout', %s, true)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = sql.SQL(
    """
COPY (
    SELECT (date_part('epoch', at) * 1e6)::bigint, id, coalesce(mac::text, identity), site_id,
        CASE WHEN policy_version > 0 THEN '' ELSE reason END,
        CASE WHEN verdict <> '' THEN verdict WHEN permitted THEN 'permit' ELSE 'deny' END,
        rule_id, rule_name, vlan, monitored, suppressed, CASE WHEN policy_version > 0 THEN to_jsonb(ARRAY[{values}]) END
    FROM (
        -- Taken apart once: each -> on the text as it is stored would read all of it again.
        SELECT *, request::jsonb AS asked FROM auth_log
        WHERE tenant_id = {tenant} AND at >= {since} AND at < {until} AND site_id = ANY ({sites})
            AND nas_identifier <> {self_test}
        OFFSET 0
    ) rows
) TO STDOUT
"""
)
_decode = msgspec.json.Decoder(list[tuple[Scalar, ...] | None]).decode


class Row(NamedTuple):
    # Epoch microseconds, and id in the log, in digits.
    at: bytes
    number: bytes
    # MAC address or, where there is none, identity; only to tell one from another.
    device: bytes
    # Everything else, for `RecordedRequests.read`: equal bytes are equal requests.
    rest: bytes


class Recorded(NamedTuple):
    """What became of a request."""

    site_id: str
    # Why no policy decided, "" where one did.
    refused: str
    verdict: str
    rule_id: str
    rule_name: str
    vlan: str
    # "rule" or "site" where that was in monitor mode: admitted whatever the verdict.
    monitored: str
    # Rejects like it that were not recorded one by one.
    suppressed: int


def count_up_to(session: Session, *, tenant_id: TenantId, since: datetime, most: int) -> int:
    """Of all sites; `most` where there are as many or more."""
    some = select(AuthLog.id).where(AuthLog.tenant_id == tenant_id, AuthLog.at >= since).limit(most).subquery()
    return session.scalars(select(func.count()).select_from(some)).one()


class RecordedRequests:
    """Of one tenant at some of its sites, from `since` to before `until` (aware); in no order."""

    def __init__(
        self, *, tenant_id: TenantId, since: datetime, until: datetime, site_ids: Iterable[UUID], names: Iterable[str]
    ) -> None:
        self._names = (_ALWAYS, *(name for name in names if name != _ALWAYS))
        self._query = _ROWS.format(
            values=sql.SQL(", ").join(sql.SQL("asked -> {}").format(sql.Literal(name)) for name in self._names),
            tenant=sql.Literal(tenant_id),
            since=sql.Literal(since),
            until=sql.Literal(until),
            sites=sql.Literal(list(site_ids)),
            self_test=sql.Literal(SELF_TEST_NAS),
        )
        # Sites, verdicts and rules are few, requests are many.
        self._recorded = lru_cache(maxsize=10_000)(_recorded)

    def rows(self, session: Session) -> Iterator[Row]:
        """As they come from the server: never more than a few in memory."""
        cursor = driver_connection(session).cursor()
        before = cursor.execute("SHOW statement_timeout").fetchone()
        assert before is not None
        # One statement for all of them, which lasts as long as whoever reads takes.
        cursor.execute(_TIMEOUT, (f"{MAX_SECONDS}s",))
        with cursor.copy(self._query) as copy:
            for line in copy:
                yield Row._make(bytes(line).split(b"\t", 3))
        cursor.execute(_TIMEOUT, before)

    def read(self, rest: bytes) -> tuple[Recorded, Attributes | None]:
        """With those attributes that were asked for and the request had; None where this version cannot read them."""
        head, values = rest.rsplit(b"\t", 1)
        return self._recorded(head), self._attributes(values)

    def _attributes(self, values: bytes) -> Attributes | None:
        if values == _NO_VALUES:
            return None
        try:
            # JSON holds nothing that COPY escapes but the backslash.
            read = _decode(values.replace(b"\\\\", b"\\"))
        except msgspec.ValidationError:
            return None
        if read[0] is None:
            return None
        return {name: value for name, value in zip(self._names, read, strict=True) if value is not None}


def _recorded(head: bytes) -> Recorded:
    site, refused, verdict, rule, name, vlan, monitored, suppressed = map(_unescaped, head.decode().split("\t"))
    return Recorded(site, refused, verdict, rule, name, vlan, monitored, int(suppressed))


_REFERENCE = re.compile(r"([0-9]{1,16})-([0-9]{1,18})")
_NO_VALUES = b"\\N\n"
# COPY's escapes of what may stand in a column of text.
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescaped(field: str) -> str:
    return "\\".join(_without_escapes(part) for part in field.split("\\\\"))


def _without_escapes(part: str) -> str:
    first, *others = part.split("\\")
    return first + "".join(_ESCAPES.get(other[:1], other[:1]) + other[1:] for other in others)


def moment_of(at: int) -> datetime:
    """Of epoch microseconds; exact, where a float would not be."""
    return _EPOCH + timedelta(microseconds=at)


def microseconds_of(moment: datetime) -> int:
    """The other way round."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def key_of_reference(reference: str) -> tuple[datetime, int] | None:
    """Of a row of a log that people name by its microseconds and id; None where nothing is named so."""
    parts = _REFERENCE.fullmatch(reference)
    return (moment_of(int(parts[1])), int(parts[2])) if parts else None
