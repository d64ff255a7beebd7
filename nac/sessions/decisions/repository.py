import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Row, Select, Text, any_, case, cast, func, or_, select, tuple_
from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.kit.mac import normalise_mac
from nac.models import AuthLog, Certificate, Nas, Site
from nac.sessions.log_search import LogStretch, restrict_to_stretch

# Encoded form of a serial number. A check is necessary, because devices control the content of the log.
_HEX_OCTETS = re.compile(r"(?:[0-9a-f]{2})+")
_SERIAL_HEX = func.encode(Certificate.serial, "hex")
# Rows that are not ordinary admissions. An ordinary admission has an enforced permit.
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
    """Add the names of NAS and site to a query."""
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
    """List decisions of a range of log rows in its order, with the columns that lists show (`request`, `nas_name`,
    `site_slug`)."""
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
