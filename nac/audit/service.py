"""The audit log: every change of a service writes its row here, in the same transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Table, insert
from sqlalchemy.orm import Session

from nac.accounts.owners import Owner
from nac.audit import repository
from nac.audit.repository import ORDERS as ORDERS
from nac.audit.repository import Filter
from nac.db.base import TenantOwned
from nac.db.orders import Span
from nac.db.seeking import Sought
from nac.errors import NotFound
from nac.ids import MspId, TenantId
from nac.models import AuditEntry, AuditSeal, Tenant

_ORIGIN = "admit.origin"
_PART = 1_000


class AuditEntryNotFound(NotFound):
    """There is no such entry of the audit log."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request came from, and its name."""

    address: str | None
    request_id: str


def note_origin(session: Session, origin: Origin) -> None:
    """What the session's entries say of it from now on."""
    session.info[_ORIGIN] = origin


def origin_of(session: Session) -> Origin | None:
    return cast("Origin | None", session.info.get(_ORIGIN))


# A statement, since nobody looks at the entry again as an object of the session.
_APPEND = insert(cast(Table, AuditEntry.__table__)).inline()


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
    """`action` is noun.verb, `target` what a person calls the thing; never a secret in `before` or `after`."""
    # What the entry tells of is written before it; nobody goes on with the entry itself.
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
    session.execute(_APPEND, {name: value for name, value in values.items() if value is not None})


def append_many(session: Session, entries: Sequence[Mapping[str, Any]]) -> None:
    """Of things by the thousand: each entry with the arguments of `append` by name, all with the same ones."""
    session.flush()
    session.execute(_APPEND, [{**entry, **_origin_columns(session)} for entry in entries])


def append_in_parts(
    session: Session, entries: Sequence[Mapping[str, Any]], tell: Callable[[int], None] = lambda done: None
) -> None:
    """`append_many`, of any number. `tell`: how many are written."""
    for start in range(0, len(entries), _PART):
        append_many(session, entries[start : start + _PART])
        tell(min(start + _PART, len(entries)))


def _origin_columns(session: Session) -> dict[str, Any]:
    origin = origin_of(session)
    return {"address": origin.address, "request_id": origin.request_id} if origin else {}


RowT = TypeVar("RowT")


def _of_row(row: TenantOwned) -> Mapping[str, Any]:
    return {"tenant_id": row.tenant_id}


@dataclass(frozen=True, slots=True)
class Recorder(Generic[RowT]):
    """`append` for the rows of one noun, of a tenant if nothing else is said."""

    noun: str
    # What a person calls a row.
    name: Callable[[RowT], str]
    owner: Callable[[Any], Mapping[str, Any]] = _of_row

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


def tenant_recorder(noun: str) -> Recorder[Tenant]:
    """Of what is done with a tenant as a whole."""
    return Recorder(noun, lambda tenant: tenant.slug, lambda tenant: {"tenant_id": tenant.id, "msp_id": tenant.msp_id})


def list_entries(
    session: Session, *, tenant_id: TenantId | None = None, before_id: int | None = None, limit: int = 100
) -> Sequence[AuditEntry]:
    """Newest first; of one tenant, or of all that the session's scope may see. Page on with the last entry's id."""
    return repository.list_entries(session, tenant_id=tenant_id, before_id=before_id, limit=limit)


def search(session: Session, *, owner: Owner, wanted: Filter, span: Span | None = None) -> Sought[AuditEntry]:
    """What was done to the owner's own, for the platform all that was done."""
    return repository.search(session, owner=owner, wanted=wanted, span=span or ORDERS.first())


def require(session: Session, *, owner: Owner, entry_id: int) -> AuditEntry:
    entry = repository.get(session, owner=owner, entry_id=entry_id)
    if entry is None:
        raise AuditEntryNotFound(place="entry")
    return entry


def seals(session: Session, entries: Sequence[AuditEntry]) -> dict[int, AuditSeal]:
    """By the ids of entries; those that wait have none."""
    return {seal.entry_id: seal for seal in repository.seals_of(session, [entry.id for entry in entries])}
