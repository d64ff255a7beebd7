"""Live and ended sessions of a tenant, from the accounting of NASes."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.cellformat.class_attribute import parse_decided_at
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_mac
from nac.models import AuthLog
from nac.sessions import repository
from nac.sessions.decisions.recorded_requests import from_microseconds
from nac.sessions.repository import SessionFilter, SessionKey, SessionRow
from nac.tenancy import sites
from nac.tenancy.nases import service as nases


class SessionNotFound(NotFound):
    """The session does not exist."""


@dataclass(frozen=True, slots=True)
class SessionView:
    row: SessionRow
    # Name of the NAS, or the identifier of an unregistered NAS.
    nas: str
    # Slug of the site. "" if the session has no site, or the site was deleted.
    site: str

    @property
    def key(self) -> SessionKey:
        """Return the key of this session. The next page begins after this key."""
        return repository.build_key(self.row)

    @property
    def seconds(self) -> int:
        """Return the duration in seconds, for a live session until now."""
        row = self.row
        if row.stopped_at is None:
            return max(row.session_seconds or 0, int((utc_now() - row.started_at).total_seconds()))
        return row.session_seconds or 0


def list_sessions(
    session: Session,
    *,
    tenant_id: TenantId,
    row: int | None = None,
    mac: str = "",
    user: str = "",
    address: str = "",
    nas: str = "",
    site: str = "",
    session_id: str = "",
    chargeable_user: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    ended: bool = False,
    after: SessionKey | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Sequence[SessionView]:
    """List live sessions, newest first.

    `ended` adds ended sessions, latest end first. `oldest_first` reverses the order.

    `row` is a session id, `mac` is in any notation, `site` is a slug, `address` is an IP address or network. `nas` is
    the name of a registered NAS, or the identifier of an unregistered NAS. `session_id` is the Acct-Session-Id,
    `chargeable_user` the Chargeable-User-Identity.

    Raises NotFound for an unknown site or NAS. Raises InvalidInput for an invalid address. A call sends one query. A
    list with ended sessions needs up to three further queries. An empty result needs some more queries.
    """
    wanted = SessionFilter(
        row=row,
        mac=require_mac(mac) if mac else "",
        user=user,
        address=_parse_network(address),
        site=site,
        nas_identifier=nas,
        session_id=session_id,
        cui=chargeable_user,
        since=since,
        until=until,
    )

    def look(wanted: SessionFilter) -> Sequence[SessionRow]:
        return _find(session, tenant_id, wanted, ended=ended, after=after, limit=limit, oldest_first=oldest_first)

    found = look(wanted)
    if not found and site:
        sites.require_by_slug(session, tenant_id=tenant_id, slug=site)
    if not found and nas:
        # No session found. Check whether the NAS is unknown, unregistered, known by another name, or has no sessions.
        try:
            registered = nases.require_nas(session, tenant_id=tenant_id, reference=nas)
        except nases.NasNotFound:
            found = look(replace(wanted, nas_identifier="", nas_said=nas))
            if not found and after is None:
                raise
        else:
            if registered.identifier != nas:
                found = look(replace(wanted, nas_identifier="", nas_id=registered.id))
    return [_build_view(each) for each in found]


def is_indexed_query(*, mac: str, user: str, nas: str, address: str) -> bool:
    """Whether an index fits these filters.

    Such an index finds live sessions in the order of the list, or finds only a few sessions.
    """
    return bool(mac or user or nas or (address and "/" not in address))


def _find(
    session: Session,
    tenant_id: TenantId,
    wanted: SessionFilter,
    *,
    ended: bool,
    after: SessionKey | None,
    limit: int,
    oldest_first: bool,
) -> Sequence[SessionRow]:
    parts = [("live", repository.list_live)] + [("ended", repository.list_ended)] * ended
    found: list[SessionRow] = []
    for part, look in reversed(parts) if oldest_first else parts:
        if after is not None and after.part != part:
            continue
        if len(found) < limit:
            left = limit - len(found)
            found += look(session, tenant_id, wanted, after=after, limit=left, oldest_first=oldest_first)
        after = None
    return found


def get_session(session: Session, *, tenant_id: TenantId, row: int) -> SessionView:
    """Return the session with this id. Raises SessionNotFound."""
    found = repository.get(session, tenant_id, row)
    if found is not None:
        return _build_view(found)
    raise SessionNotFound(
        f"Unknown session {row}.",
        place="session",
        remedy=Advice("List sessions", NextStep("listSessions", {"ended": "true"})),
    )


def find_deciding_row(session: Session, shown: SessionView) -> AuthLog | None:
    """Return the decision that admitted the session. The Class attribute identifies the decision.

    Returns None if the session has no Class, or if the decision was deleted from the log.
    """
    row = shown.row
    at = parse_decided_at(row.class_)
    if at is None:
        return None
    query = select(AuthLog).where(AuthLog.tenant_id == row.tenant_id, AuthLog.at == from_microseconds(at))
    decisions = session.scalars(query).all()
    return next((decision for decision in decisions if decision.mac == row.mac), None)


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parse an IP network. A single address is a network with one address."""
    try:
        return ipaddress.ip_network(text, strict=False) if text else None
    except ValueError as exc:
        raise InvalidInput(f"{text!r} is not an IPv4 or IPv6 address or network.", place="address") from exc


def _build_view(found: SessionRow) -> SessionView:
    identifier, _, address = found.nas_key.partition("|")
    return SessionView(found, found.nas or identifier or address, found.site or "")
