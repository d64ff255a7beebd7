"""Recorded requests of a tenant, for replays. A tenant can have millions of recorded requests.

PostgreSQL returns only the attributes that the replay needs. As a result, equal requests have equal bytes. Readers
cache results by these bytes, and therefore decode JSON for only a few thousand different requests.
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

from nac.cellformat.self_test_ticket import NAS_IDENTIFIER as SELF_TEST_NAS
from nac.kit.db import driver_connection
from nac.kit.ids import TenantId
from nac.models import AuthLog

Scalar = str | int | bool
RecordedAttributes = Mapping[str, tuple[Scalar, ...]]

# Attribute of every request about which a policy decided.
_METHOD_ATTRIBUTE = "method"
# Time limit of a query. 1,000,000 requests take about 25 s.
MAX_SECONDS = 900
_SET_TIMEOUT = "SELECT set_config('statement_timeout', %s, true)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COPY_ROWS = sql.SQL(
    """
COPY (
    SELECT (date_part('epoch', at) * 1e6)::bigint, id, coalesce(mac::text, identity), site_id,
        CASE WHEN policy_version > 0 THEN '' ELSE reason END,
        CASE WHEN verdict <> '' THEN verdict WHEN permitted THEN 'permit' ELSE 'deny' END,
        rule_id, rule_name, vlan, monitored, suppressed, reason = 'no-passphrase',
        CASE WHEN policy_version > 0 THEN to_jsonb(ARRAY[{values}]) END
    FROM (
        -- Parse once: each -> on the stored text would parse all of it again.
        SELECT *, request::jsonb AS asked FROM auth_log
        WHERE tenant_id = {tenant} AND at >= {since} AND at < {until} AND site_id = ANY ({sites})
            AND nas_identifier <> {self_test}
        OFFSET 0
    ) rows
) TO STDOUT
"""
)
_decode = msgspec.json.Decoder(list[tuple[Scalar, ...] | None]).decode


class RecordedRow(NamedTuple):
    # Time in epoch microseconds, as digits.
    at: bytes
    number: bytes
    # MAC address; if missing, the identity. A replay uses this value only to count devices.
    device: bytes
    # Argument for `RecordedRequests.read`. Equal requests have equal bytes.
    rest: bytes


class RecordedOutcome(NamedTuple):
    """Recorded decision about a request."""

    site_id: str
    # Reason code if no policy decided. Otherwise "".
    refused: str
    verdict: str
    rule_id: str
    rule_name: str
    vlan: str
    # "rule" or "site" if the rule or site was in monitor mode, so that Admit did not enforce the verdict. Otherwise "".
    monitored: str
    # Number of equal rejects that the cell did not record separately.
    suppressed: int
    # Whether the reply needed a passphrase that Admit had not stored.
    lacks_passphrase: bool


def count_rows_up_to(session: Session, *, tenant_id: TenantId, since: datetime, most: int) -> int:
    """Count decisions of the tenant since `since`, up to `most`."""
    some = select(AuthLog.id).where(AuthLog.tenant_id == tenant_id, AuthLog.at >= since).limit(most).subquery()
    return session.scalars(select(func.count()).select_from(some)).one()


class RecordedRequests:
    """Requests of a tenant at some sites, in any order, from `since` (included) to `until` (excluded).

    Times have time zones.
    """

    def __init__(
        self, *, tenant_id: TenantId, since: datetime, until: datetime, site_ids: Iterable[UUID], names: Iterable[str]
    ) -> None:
        self._names = (_METHOD_ATTRIBUTE, *(name for name in names if name != _METHOD_ATTRIBUTE))
        self._query = _COPY_ROWS.format(
            values=sql.SQL(", ").join(sql.SQL("asked -> {}").format(sql.Literal(name)) for name in self._names),
            tenant=sql.Literal(tenant_id),
            since=sql.Literal(since),
            until=sql.Literal(until),
            sites=sql.Literal(list(site_ids)),
            self_test=sql.Literal(SELF_TEST_NAS),
        )
        # Cached, because the requests have only a few combinations of site, verdict and rule.
        self._recorded = lru_cache(maxsize=10_000)(_parse_outcome)

    def rows(self, session: Session) -> Iterator[RecordedRow]:
        """Yield the rows of the recorded requests. Only a few rows are in memory at a time."""
        cursor = driver_connection(session).cursor()
        before = cursor.execute("SHOW statement_timeout").fetchone()
        assert before is not None
        # The whole read is one statement, so it needs a longer time limit.
        cursor.execute(_SET_TIMEOUT, (f"{MAX_SECONDS}s",))
        with cursor.copy(self._query) as copy:
            for line in copy:
                yield RecordedRow._make(bytes(line).split(b"\t", 3))
        cursor.execute(_SET_TIMEOUT, before)

    def read(self, rest: bytes) -> tuple[RecordedOutcome, RecordedAttributes | None]:
        """Decode a row: the recorded decision, and the attributes of the request.

        The attributes are None if this version cannot decode them.
        """
        head, values = rest.rsplit(b"\t", 1)
        return self._recorded(head), self._attributes(values)

    def _attributes(self, values: bytes) -> RecordedAttributes | None:
        if values == _NO_VALUES:
            return None
        try:
            # COPY escapes only backslashes in JSON.
            read = _decode(values.replace(b"\\\\", b"\\"))
        except msgspec.ValidationError:
            return None
        if read[0] is None:
            return None
        return {name: value for name, value in zip(self._names, read, strict=True) if value is not None}


def _parse_outcome(head: bytes) -> RecordedOutcome:
    site, refused, verdict, rule, name, vlan, monitored, suppressed, lacks = map(_unescape, head.decode().split("\t"))
    return RecordedOutcome(site, refused, verdict, rule, name, vlan, monitored, int(suppressed), lacks == "t")


_REFERENCE = re.compile(r"([0-9]{1,16})-([0-9]{1,18})")
_NO_VALUES = b"\\N\n"
# Escapes of COPY in text columns.
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescape(field: str) -> str:
    return "\\".join(_unescape_part(part) for part in field.split("\\\\"))


def _unescape_part(part: str) -> str:
    first, *others = part.split("\\")
    return first + "".join(_ESCAPES.get(other[:1], other[:1]) + other[1:] for other in others)


def from_microseconds(at: int) -> datetime:
    """Convert epoch microseconds to a time. The conversion is exact, because it uses no floating-point numbers."""
    return _EPOCH + timedelta(microseconds=at)


def to_microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def parse_reference(reference: str) -> tuple[datetime, int] | None:
    """Parse the public id of a log row into time and row id. Returns None if the public id is invalid."""
    parts = _REFERENCE.fullmatch(reference)
    return (from_microseconds(int(parts[1])), int(parts[2])) if parts else None
