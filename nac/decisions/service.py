"""Decisions of a tenant's cell as the auth log keeps them, in words that a help desk can act on."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

import msgspec
from sqlalchemy import Row
from sqlalchemy.orm import Session

from nac.decisions import repository
from nac.decisions.recorded import key_of_reference, microseconds_of
from nac.errors import NotFound
from nac.ids import TenantId
from nac.log_search import LogKey, LogSearchResult, search_log
from nac.models import AuthLog
from nac.reasons import Reason, get_reason
from nac.sites import service as sites
from nac.validation import require_mac

# Weeks of a small tenant, an hour of a large one.
SEARCHED_ROWS = 100_000


class DecisionNotFound(NotFound):
    """There is no such decision in the log."""


# A list has the columns that it shows alone, and `request` as text.
Log = AuthLog | Row[*tuple[Any, ...]]


class _Said(msgspec.Struct):
    """Of what a decision was made by, what lists show."""

    users: list[Any] = msgspec.field(name="radius.User-Name", default_factory=list)
    common_names: list[Any] = msgspec.field(name="certificate.common_name", default_factory=list)
    # With a certificate its name, also where that has no common name.
    identities: list[Any] = msgspec.field(name="identity", default_factory=list)


_SAID: Final = msgspec.json.Decoder(_Said)


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    log: Log
    # The NAS's name or, where it is not registered, what it calls itself or its address.
    nas: str
    # "" where it belonged to none, or to one that is gone.
    site: str
    # Common or alternative name; "" where none was shown, or neither log nor issued certificates know it.
    certificate: str
    # What a device called itself outside the tunnel in which it said who it is.
    outer_user: str

    @property
    def key(self) -> tuple[datetime, int]:
        """To page on with."""
        return self.log.at, self.log.id

    @property
    def reference(self) -> str:
        """For people and programs to name it by."""
        return reference_of(self.log)

    @property
    def verdict(self) -> str:
        """permit, quarantine or deny as policy has it; in monitor mode not what was done."""
        return self.log.verdict or ("permit" if self.log.permitted else "deny")

    @property
    def reason(self) -> Reason:
        return get_reason(self.log.reason)


def reference_of(log: Log) -> str:
    return f"{microseconds_of(log.at)}-{log.id}"


def list_decisions(
    session: Session,
    *,
    tenant_id: TenantId,
    mac: str = "",
    user: str = "",
    reason: str = "",
    nas: str = "",
    site: str = "",
    rejects: bool = False,
    monitored: bool = False,
    since: datetime | None = None,
    before: tuple[datetime, int] | None = None,
    limit: int = 100,
) -> Sequence[LoggedDecision]:
    """Newest first; page on with the last one's key as `before`.

    `mac` in any notation, `site` a slug, the others as `repository.Filter`. Without `since`, what no index finds is
    looked for in the newest SEARCHED_ROWS alone (`searched_since`).
    """
    wanted = _wanted(
        session, tenant_id, mac=mac, user=user, reason=reason, nas=nas, site=site, rejects=rejects, monitored=monitored
    )
    wanted = replace(wanted, since=since)
    if since is None and wanted.reads_rows:
        wanted = replace(wanted, since=repository.moment_of_row(session, tenant_id, SEARCHED_ROWS))
    return _named(session, tenant_id, repository.list_page(session, tenant_id, wanted, before=before, limit=limit))


class _More(TypedDict, total=False):
    user: str
    reason: str
    method: str
    nas: str
    # permit, quarantine or deny
    verdict: str
    rejects: bool
    monitored: bool


class Given(_More, total=False):
    """As `list_decisions` takes them."""

    mac: str
    site: str


def search_decisions(
    session: Session,
    *,
    tenant_id: TenantId,
    before: LogKey | None = None,
    until: datetime | None = None,
    limit: int = 100,
    oldest_first: bool = False,
    **given: Unpack[Given],
) -> LogSearchResult[LoggedDecision]:
    """As `list_decisions`, from `before` as far as `until` (nac.log_search), for as long as one answer may take: fewer
    than `limit` need not be all that there are."""
    wanted = _wanted(session, tenant_id, **given)
    found = search_log(
        session,
        AuthLog,
        tenant_id=tenant_id,
        look=lambda stretch, most: repository.list_stretch(session, tenant_id, wanted, stretch, most),
        key=lambda row: (row.at, row.id),
        reads_rows=wanted.reads_rows,
        before=before,
        until=until,
        limit=limit,
        oldest_first=oldest_first,
    )
    return LogSearchResult(
        _logged(session, tenant_id, [(row, row.nas_name, row.site_slug) for row in found.rows]), found.next
    )


def _wanted(
    session: Session, tenant_id: TenantId, *, mac: str = "", site: str = "", **more: Unpack[_More]
) -> repository.Filter:
    return repository.Filter(
        mac=require_mac(mac) if mac else "",
        site_id=sites.require_by_slug(session, tenant_id=tenant_id, slug=site).id if site else None,
        **more,
    )


def find_decisions(
    session: Session, *, tenant_id: TenantId, keys: Collection[tuple[datetime, int]]
) -> Mapping[tuple[datetime, int], LoggedDecision]:
    """Those of these keys that are in the log."""
    found = _named(session, tenant_id, repository.list_keys(session, tenant_id, keys)) if keys else ()
    return {logged.key: logged for logged in found}


def require_decision(session: Session, *, tenant_id: TenantId, reference: str) -> LoggedDecision:
    """That of this `LoggedDecision.reference`. Raises DecisionNotFound."""
    key = key_of_reference(reference)
    keys = [key] if key else []
    found = find_decisions(session, tenant_id=tenant_id, keys=keys)
    if not found:
        raise DecisionNotFound(
            f"There is no decision {reference!r} in the log.",
            place="decision",
            remedy="Ids are told by: ./admit decisions --json",
        )
    return found[keys[0]]


def _named(
    session: Session, tenant_id: TenantId, found: Sequence[Row[AuthLog, str | None, str | None]]
) -> list[LoggedDecision]:
    return _logged(session, tenant_id, [(log, nas_name, slug) for log, nas_name, slug in found])


def _logged(
    session: Session, tenant_id: TenantId, found: Sequence[tuple[Log, str | None, str | None]]
) -> list[LoggedDecision]:
    said = [_said(log.request) for log, _, _ in found]
    names = _certificate_names(session, tenant_id, [(log, each) for (log, _, _), each in zip(found, said, strict=True)])
    return [
        LoggedDecision(
            log,
            nas_name or log.nas_identifier or log.nas_address or "",
            slug or "",
            names.get(log.certificate_serial, ""),
            "".join(str(name) for name in each.users[:1] if name != log.identity),
        )
        for (log, nas_name, slug), each in zip(found, said, strict=True)
    ]


def _said(request: dict[str, Any] | str) -> _Said:
    """Devices choose what is in there: what one reader takes for no JSON, the other may."""
    if isinstance(request, str):
        try:
            return _SAID.decode(request)
        except msgspec.DecodeError:
            request = json.loads(request)
            assert isinstance(request, dict)
    return _Said(*(request.get(name, []) for name in ("radius.User-Name", "certificate.common_name", "identity")))


def searched_since(session: Session, *, tenant_id: TenantId, **given: Unpack[Given]) -> datetime | None:
    """How far back `list_decisions` looks that is given these and no `since`; None: at all there is."""
    reads_rows = _wanted(session, tenant_id, **given).reads_rows
    return repository.moment_of_row(session, tenant_id, SEARCHED_ROWS) if reads_rows else None


def _certificate_names(session: Session, tenant_id: TenantId, logs: Sequence[tuple[Log, _Said]]) -> Mapping[str, str]:
    """By serial number: what the certificate itself said, else what it was issued with."""
    shown = {
        log.certificate_serial: str(names[0])
        for log, said in logs
        if log.certificate_serial and (names := said.common_names or (log.method == "eap-tls" and said.identities))
    }
    unnamed = {log.certificate_serial for log, _ in logs if log.certificate_serial} - shown.keys()
    return shown if not unnamed else {**shown, **repository.certificate_names(session, tenant_id, unnamed)}
