"""Log of decisions, with explanations for a help desk."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypedDict, TypeVar, Unpack
from uuid import UUID

import msgspec
from sqlalchemy import ARRAY, ColumnElement, Row, Select, Text, any_, case, cast, func, or_, select, tuple_
from sqlalchemy.orm import Session

from nac.engine.reasons import Reason, get_reason
from nac.kit.advice import Advice
from nac.kit.errors import NotFound
from nac.kit.ids import TenantId
from nac.kit.mac import normalise_mac
from nac.kit.validation import require_mac
from nac.models import AuthLog, Certificate, Nas, Site
from nac.sessions.decisions.recorded_requests import parse_reference, to_microseconds
from nac.sessions.log_search import LogKey, LogSearchResult, LogStretch, restrict_to_stretch, search_log
from nac.tenancy import sites

# Hexadecimal form of a serial number. A check is necessary, because devices control the content of the log.
_HEX_OCTETS = re.compile(r"(?:[0-9a-f]{2})+")
_SERIAL_HEX = func.encode(Certificate.serial, "hex")
# Rows that are not ordinary admissions. An ordinary admission is a permit outside monitor mode.
_NOT_ADMITTED = or_(~AuthLog.permitted, AuthLog.verdict.in_(("quarantine", "deny")), AuthLog.monitored != "")
_ADMITTING_REASONS = frozenset({"rule-permitted", "fallback-permitted"})
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])
# Maximum number of serial numbers in a search for a common name.
_MAX_SERIALS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """Filter of decisions. All values of the filter must match; "" and None match every decision."""

    # MAC address, 12 lower-case hexadecimal digits.
    mac: str = ""
    # User-Name, EAP identity, or the certificate's common name or serial number (hexadecimal). Case is
    # ignored. A MAC address also matches the device.
    user: str = ""
    reason: str = ""
    # Authentication method, such as eap-tls or mab.
    method: str = ""
    # Name of the registered NAS, NAS-Identifier or address of the NAS.
    nas: str = ""
    site_id: UUID | None = None
    rejects: bool = False
    # Only decisions in monitor mode.
    monitored: bool = False
    # Verdict of the policy: permit, quarantine or deny.
    verdict: str = ""

    @property
    def reads_rows(self) -> bool:
        """Whether no index fits the filter. The search must then read rows from the newest row until enough rows
        match."""
        return bool(self.nas or self.site_id or self.reason or self.method or self.verdict) and not (
            self.mac or self.user or self.is_refusals_only
        )

    @property
    def is_refusals_only(self) -> bool:
        """Whether the filter excludes all ordinary admissions, like a filter for rejects or for quarantine."""
        return (
            self.rejects
            or self.monitored
            or self.verdict in ("quarantine", "deny")
            or bool(self.reason and self.reason not in _ADMITTING_REASONS)
        )


def _join_nas_and_site(query: Query) -> Query:
    return query.outerjoin(Nas, (Nas.tenant_id == AuthLog.tenant_id) & (Nas.id == AuthLog.nas_id)).outerjoin(
        Site, (Site.tenant_id == AuthLog.tenant_id) & (Site.id == AuthLog.site_id)
    )


_SELECT_WITH_NAMES = _join_nas_and_site(select(AuthLog, Nas.name, Site.slug))
_SELECT_LISTED = _join_nas_and_site(
    select(
        AuthLog.id,
        AuthLog.at,
        AuthLog.nas_address,
        AuthLog.nas_identifier,
        AuthLog.nas_port,
        AuthLog.mac,
        AuthLog.identity,
        AuthLog.method,
        AuthLog.permitted,
        AuthLog.reason,
        AuthLog.detail,
        AuthLog.rule_name,
        AuthLog.policy_version,
        AuthLog.vlan,
        AuthLog.certificate_serial,
        AuthLog.resumed,
        AuthLog.suppressed,
        AuthLog.verdict,
        AuthLog.monitored,
        AuthLog.reply,
        # As text: decoding the JSON would take two thirds of the time, and lists rarely need its content.
        cast(AuthLog.request, Text).label("request"),
        Nas.name.label("nas_name"),
        Site.slug.label("site_slug"),
    )
)


def list_stretch(
    session: Session, tenant_id: TenantId, wanted: DecisionFilter, stretch: LogStretch, limit: int
) -> Sequence[Row[*tuple[Any, ...]]]:
    """List the matching decisions of a range of log rows, with the columns of lists (such as `nas_name`)."""
    query = restrict_to_stretch(_apply_filter(session, _SELECT_LISTED, tenant_id, wanted), AuthLog, stretch).limit(
        limit
    )
    return session.connection().execute(query).all()


def _apply_filter(session: Session, query: Query, tenant_id: TenantId, wanted: DecisionFilter) -> Query:
    query = query.where(AuthLog.tenant_id == tenant_id)
    if wanted.mac:
        query = query.where(AuthLog.mac == wanted.mac)
    if wanted.user:
        query = query.where(_user_clause(session, tenant_id, wanted.user.lower()))
    if wanted.is_refusals_only:
        query = query.where(_NOT_ADMITTED)
    if wanted.nas:
        named = wanted.nas.lower()
        names = (func.lower(Nas.name), func.lower(AuthLog.nas_identifier), func.host(AuthLog.nas_address))
        query = query.where(or_(*(name == named for name in names)))
    if wanted.site_id is not None:
        query = query.where(AuthLog.site_id == wanted.site_id)
    if wanted.reason:
        query = query.where(AuthLog.reason == wanted.reason)
    if wanted.method:
        query = query.where(AuthLog.method == wanted.method)
    if wanted.rejects:
        query = query.where(AuthLog.permitted.is_(False))
    if wanted.monitored:
        query = query.where(AuthLog.monitored != "")
    if wanted.verdict:
        query = query.where(_verdict_expression() == wanted.verdict)
    return query


def list_by_keys(
    session: Session, tenant_id: TenantId, keys: Collection[tuple[datetime, int]]
) -> Sequence[Row[AuthLog, str | None, str | None]]:
    """Return the decisions with these keys, with the names of NAS and site."""
    moments = [at for at, _ in keys]
    # PostgreSQL uses only the conditions on `at` to exclude partitions.
    within = AuthLog.at.between(min(moments), max(moments)), tuple_(AuthLog.at, AuthLog.id).in_(keys)
    return session.execute(_SELECT_WITH_NAMES.where(AuthLog.tenant_id == tenant_id, *within)).all()


def _user_clause(session: Session, tenant_id: TenantId, name: str) -> ColumnElement[bool]:
    # If the certificate status caused the reject, the log has only the serial number.
    issued = select(_SERIAL_HEX).where(
        Certificate.tenant_id == tenant_id, Certificate.common_name_key == func.lower(name)
    )
    serials = [name.replace(":", ""), *session.scalars(issued.limit(_MAX_SERIALS))]
    is_of = or_(
        AuthLog.identity_key == name,
        AuthLog.common_name_key == name,
        AuthLog.certificate_serial == any_(cast(serials, ARRAY(Text()))),
    )
    mac = normalise_mac(name)
    return is_of | (AuthLog.mac == mac) if mac else is_of


def _verdict_expression() -> ColumnElement[str]:
    """Return the SQL expression for the verdict.

    Old rows have no verdict, so the expression computes their verdict from other columns.
    """
    return case((AuthLog.verdict != "", AuthLog.verdict), (AuthLog.permitted, "permit"), else_="deny")


def certificate_names_by_serial(session: Session, tenant_id: TenantId, serials: Collection[str]) -> Mapping[str, str]:
    """Return common names of the tenant's certificates, by serial number (hexadecimal)."""
    numbers = [bytes.fromhex(serial) for serial in serials if _HEX_OCTETS.fullmatch(serial)]
    query = select(_SERIAL_HEX, Certificate.common_name).where(
        Certificate.tenant_id == tenant_id, Certificate.serial.in_(numbers)
    )
    return dict(session.execute(query).all())


class DecisionNotFound(NotFound):
    """The decision does not exist in the log."""


# A decision as an entity, or a row with only the columns of lists. The row has `request` as text.
DecisionLogRow = AuthLog | Row[*tuple[Any, ...]]


class _RequestFacts(msgspec.Struct):
    """The attributes of a stored request that lists of decisions show."""

    users: list[Any] = msgspec.field(name="radius.User-Name", default_factory=list)
    common_names: list[Any] = msgspec.field(name="certificate.common_name", default_factory=list)
    # For a login with a certificate: the common name or, if missing, the first alternative name.
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
        look=lambda stretch, most: list_stretch(session, tenant_id, wanted, stretch, most),
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
) -> DecisionFilter:
    return DecisionFilter(
        mac=require_mac(mac) if mac else "",
        site_id=sites.require_by_slug(session, tenant_id=tenant_id, slug=site).id if site else None,
        **more,
    )


def find_decisions(
    session: Session, *, tenant_id: TenantId, keys: Collection[tuple[datetime, int]]
) -> Mapping[tuple[datetime, int], LoggedDecision]:
    """Return the decisions that have these keys and are in the log, by key."""
    found = _build_from_rows(session, tenant_id, list_by_keys(session, tenant_id, keys)) if keys else ()
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
    """Parse the stored request. If msgspec rejects text that a device sent, parse the request with `json`."""
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
    return known if not unnamed else {**known, **certificate_names_by_serial(session, tenant_id, unnamed)}
