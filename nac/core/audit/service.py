"""Audit log. Each change of data writes an audit entry in the same transaction."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast

from sqlalchemy import Table, insert
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.audit import repository
from nac.core.audit.repository import ORDERS as ORDERS
from nac.core.audit.repository import AuditEntryFilter
from nac.kit.db.base import TenantOwned
from nac.kit.db.queries import BoundedPage
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import NotFound
from nac.kit.ids import MspId, TenantId
from nac.models import AuditEntry, AuditSeal, Tenant

_ORIGIN_KEY = "admit.origin"
_BATCH_SIZE = 1_000
_MAX_DIFFERENCE_DEPTH = 8


class AuditDifference(NamedTuple):
    # Path of the changed value, with dots, such as settings.port.
    name: str
    # Values before and after the change; None for a missing value.
    before: Any
    after: Any


class AuditEntryNotFound(NotFound):
    """The audit entry does not exist."""


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Source IP address and id of the API request that caused a change."""

    address: str | None
    request_id: str


def set_origin(session: Session, origin: RequestOrigin) -> None:
    """Set the origin of all further audit entries that this session writes."""
    session.info[_ORIGIN_KEY] = origin


def get_origin(session: Session) -> RequestOrigin | None:
    return cast("RequestOrigin | None", session.info.get(_ORIGIN_KEY))


# Insert without a model object, because the session does not read the entry again.
_INSERT_ENTRY = insert(cast(Table, AuditEntry.__table__)).inline()


def append(
    session: Session,
    *,
    actor: str,
    action: str,
    target: str,
    tenant_id: TenantId | None = None,
    msp_id: MspId | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Add an entry. `action` has the form noun.verb. `target` names the changed object in a way that people recognise.

    Never put secrets in `before` or `after`.
    """
    # Send the change to the database before its audit entry.
    session.flush()
    values = {
        "actor": actor,
        "action": action,
        "target": target,
        "tenant_id": tenant_id,
        "msp_id": msp_id,
        "before": before and dict(before),
        "after": after and dict(after),
    } | _origin_columns(session)
    session.execute(_INSERT_ENTRY, {name: value for name, value in values.items() if value is not None})


def append_difference(
    session: Session,
    *,
    actor: str,
    action: str,
    target: str,
    tenant_id: TenantId,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> None:
    """Add an entry with the values that differ between `before` and `after`. Adds no entry if all values are equal.

    `before` and `after` must have the same keys.
    """
    if changed := [key for key in after if after[key] != before[key]]:
        append(
            session,
            actor=actor,
            action=action,
            target=target,
            tenant_id=tenant_id,
            before={key: before[key] for key in changed},
            after={key: after[key] for key in changed},
        )


def append_many(session: Session, entries: Sequence[Mapping[str, Any]]) -> None:
    """Add many entries. Each mapping has the arguments of one call of `append`, by name.

    All mappings must have the same keys.
    """
    session.flush()
    session.execute(_INSERT_ENTRY, [{**entry, **_origin_columns(session)} for entry in entries])


def append_in_batches(
    session: Session, entries: Sequence[Mapping[str, Any]], report: Callable[[int], None] = lambda done: None
) -> None:
    """Add any number of entries in batches. `report` receives the number of entries written so far."""
    for start in range(0, len(entries), _BATCH_SIZE):
        append_many(session, entries[start : start + _BATCH_SIZE])
        report(min(start + _BATCH_SIZE, len(entries)))


def _origin_columns(session: Session) -> dict[str, Any]:
    origin = get_origin(session)
    return {"address": origin.address, "request_id": origin.request_id} if origin else {}


RowT = TypeVar("RowT")


def _tenant_column(row: TenantOwned) -> Mapping[str, Any]:
    return {"tenant_id": row.tenant_id}


@dataclass(frozen=True, slots=True)
class AuditRecorder(Generic[RowT]):
    """Callable object that adds audit entries for the rows of one table, such as `sites`."""

    noun: str
    # Function that returns the name of a row, as readers of the audit log see it.
    name: Callable[[RowT], str]
    # Function that returns the column with the id of the tenant or MSP whose audit log gets the entry, and this id.
    owner: Callable[[Any], Mapping[str, Any]] = _tenant_column

    def __call__(
        self,
        session: Session,
        actor: str,
        row: RowT,
        verb: str,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> None:
        append(
            session,
            actor=actor,
            action=f"{self.noun}.{verb}",
            target=self.name(row),
            before=before,
            after=after,
            **self.owner(row),
        )


def tenant_recorder(noun: str) -> AuditRecorder[Tenant]:
    """Return a recorder for changes of rows in the table `tenants`."""
    return AuditRecorder(
        noun, lambda tenant: tenant.slug, lambda tenant: {"tenant_id": tenant.id, "msp_id": tenant.msp_id}
    )


def list_entries(
    session: Session, *, tenant_id: TenantId | None = None, before_id: int | None = None, limit: int = 100
) -> Sequence[AuditEntry]:
    """List entries of one tenant, or all entries that the scope can read, newest first.

    `before_id` is the last id of the previous page.
    """
    return repository.list_entries(session, tenant_id=tenant_id, before_id=before_id, limit=limit)


def search_entries(
    session: Session, *, owner: Owner, wanted: AuditEntryFilter, span: PageSpan | None = None
) -> BoundedPage[AuditEntry]:
    """Search entries that the owner can read. The platform can read all entries."""
    return repository.search_entries(session, owner=owner, wanted=wanted, span=span or ORDERS.first())


def require_entry(session: Session, *, owner: Owner, entry_id: int) -> AuditEntry:
    entry = repository.get(session, owner=owner, entry_id=entry_id)
    if entry is None:
        raise AuditEntryNotFound(place="entry")
    return entry


def seals_by_entry_id(session: Session, entries: Sequence[AuditEntry]) -> dict[int, AuditSeal]:
    """Return the seals of these entries by id of the entry. The result omits entries that are not sealed yet."""
    return {seal.entry_id: seal for seal in repository.list_seals(session, [entry.id for entry in entries])}


def list_differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[AuditDifference]:
    """List the differences between two mappings. None counts as an empty mapping."""
    return [
        each
        for each in _compare_values(before or {}, after or {}, "", _MAX_DIFFERENCE_DEPTH)
        if each.before != each.after
    ]


def _compare_values(
    before: Mapping[str, Any], after: Mapping[str, Any], within: str, deeper: int
) -> Iterator[AuditDifference]:
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        path = f"{within}{name}"
        if (
            deeper
            and (isinstance(old, dict) or isinstance(new, dict))
            and all(_is_nestable(each) for each in (old, new))
        ):
            yield from _compare_values(old or {}, new or {}, f"{path}.", deeper - 1)
        else:
            yield AuditDifference(path, old, new)


def _is_nestable(value: object) -> bool:
    return value is None or isinstance(value, dict)
