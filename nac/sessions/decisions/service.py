"""Log of decisions, with explanations for a help desk."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

import msgspec
from sqlalchemy import Row
from sqlalchemy.orm import Session

from nac.engine.reasons import Reason, get_reason
from nac.kit.advice import Advice
from nac.kit.errors import NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_mac
from nac.models import AuthLog
from nac.sessions.decisions import repository
from nac.sessions.decisions.recorded_requests import parse_reference, to_microseconds
from nac.sessions.log_search import LogKey, LogSearchResult, search_log
from nac.tenancy import sites


class DecisionNotFound(NotFound):
    """The decision does not exist in the log."""


# A decision as an entity, or a row with only the columns of lists. The row has `request` as text.
DecisionLogRow = AuthLog | Row[*tuple[Any, ...]]


class _RequestFacts(msgspec.Struct):
    """The attributes of a stored request that lists of decisions show."""

    users: list[Any] = msgspec.field(name="radius.User-Name", default_factory=list)
    common_names: list[Any] = msgspec.field(name="certificate.common_name", default_factory=list)
    # With a certificate, the name in the certificate, even if the certificate has no common name.
    identities: list[Any] = msgspec.field(name="identity", default_factory=list)


_FACTS_DECODER: Final = msgspec.json.Decoder(_RequestFacts)


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    log: DecisionLogRow
    # Name of the NAS, or identifier or address of an unregistered NAS.
    nas: str
    # Slug of the site. "" if the decision has no site, or the site was deleted.
    site: str
    # Common or alternative name of the certificate. "" if the request had no certificate, or its name is unknown.
    certificate: str
    # Identity in the EAP exchange outside the TLS tunnel.
    outer_user: str

    @property
    def key(self) -> tuple[datetime, int]:
        """Return the key of this decision. The next page begins after this key."""
        return self.log.at, self.log.id

    @property
    def reference(self) -> str:
        """Return the public id of the decision."""
        return build_reference(self.log)

    @property
    def verdict(self) -> str:
        """Return the verdict of the policy: permit, quarantine or deny. Monitor mode does not enforce the
        verdict."""
        return self.log.verdict or ("permit" if self.log.permitted else "deny")

    @property
    def reason(self) -> Reason:
        return get_reason(self.log.reason)


def build_reference(log: DecisionLogRow) -> str:
    return f"{to_microseconds(log.at)}-{log.id}"


class _CommonFilterOptions(TypedDict, total=False):
    user: str
    reason: str
    method: str
    nas: str
    # permit, quarantine or deny.
    verdict: str
    rejects: bool
    monitored: bool


class DecisionFilterOptions(_CommonFilterOptions, total=False):
    """Filters of `search_decisions`.

    `mac` is in any notation, `site` is a slug, and all other filters are as in `DecisionFilter`.
    """

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
    **given: Unpack[DecisionFilterOptions],
) -> LogSearchResult[LoggedDecision]:
    """Search decisions from `before` to `until`; by default, newest first.

    The search stops early when the time for one response is over. So a page with fewer decisions than requested may
    have a next page.
    """
    wanted = _build_filter(session, tenant_id, **given)
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
        _build_decisions(session, tenant_id, [(row, row.nas_name, row.site_slug) for row in found.rows]), found.next
    )


def _build_filter(
    session: Session, tenant_id: TenantId, *, mac: str = "", site: str = "", **more: Unpack[_CommonFilterOptions]
) -> repository.DecisionFilter:
    return repository.DecisionFilter(
        mac=require_mac(mac) if mac else "",
        site_id=sites.require_by_slug(session, tenant_id=tenant_id, slug=site).id if site else None,
        **more,
    )


def find_decisions(
    session: Session, *, tenant_id: TenantId, keys: Collection[tuple[datetime, int]]
) -> Mapping[tuple[datetime, int], LoggedDecision]:
    """Return the decisions that have these keys and are in the log, by key."""
    found = _build_from_rows(session, tenant_id, repository.list_by_keys(session, tenant_id, keys)) if keys else ()
    return {logged.key: logged for logged in found}


def require_decision(session: Session, *, tenant_id: TenantId, reference: str) -> LoggedDecision:
    """Return the decision with this `LoggedDecision.reference`. Raises DecisionNotFound."""
    key = parse_reference(reference)
    keys = [key] if key else []
    decisions = find_decisions(session, tenant_id=tenant_id, keys=keys)
    if not decisions:
        raise DecisionNotFound(
            f"Unknown decision {reference!r}.",
            place="decision",
            remedy=Advice("List decisions with ids", "listDecisions"),
        )
    return decisions[keys[0]]


def _build_from_rows(
    session: Session, tenant_id: TenantId, found: Sequence[Row[AuthLog, str | None, str | None]]
) -> list[LoggedDecision]:
    return _build_decisions(session, tenant_id, [(log, nas_name, slug) for log, nas_name, slug in found])


def _build_decisions(
    session: Session, tenant_id: TenantId, found: Sequence[tuple[DecisionLogRow, str | None, str | None]]
) -> list[LoggedDecision]:
    parsed = [_decode_facts(log.request) for log, _, _ in found]
    names = _certificate_names(
        session, tenant_id, [(log, each) for (log, _, _), each in zip(found, parsed, strict=True)]
    )
    return [
        LoggedDecision(
            log,
            nas_name or log.nas_identifier or log.nas_address or "",
            slug or "",
            names.get(log.certificate_serial, ""),
            "".join(str(name) for name in each.users[:1] if name != log.identity),
        )
        for (log, nas_name, slug), each in zip(found, parsed, strict=True)
    ]


def _decode_facts(request: dict[str, Any] | str) -> _RequestFacts:
    """Parse the stored request. Devices control the content of the request, which some JSON parsers may reject."""
    if isinstance(request, str):
        try:
            return _FACTS_DECODER.decode(request)
        except msgspec.DecodeError:
            request = json.loads(request)
            assert isinstance(request, dict)
    return _RequestFacts(
        *(request.get(name, []) for name in ("radius.User-Name", "certificate.common_name", "identity"))
    )


def _certificate_names(
    session: Session, tenant_id: TenantId, logs: Sequence[tuple[DecisionLogRow, _RequestFacts]]
) -> Mapping[str, str]:
    """Return certificate names by serial number, from the request or from the certificate that Admit issued."""
    known = {
        log.certificate_serial: str(names[0])
        for log, said in logs
        if log.certificate_serial and (names := said.common_names or (log.method == "eap-tls" and said.identities))
    }
    unnamed = {log.certificate_serial for log, _ in logs if log.certificate_serial} - known.keys()
    return known if not unnamed else {**known, **repository.certificate_names_by_serial(session, tenant_id, unnamed)}
