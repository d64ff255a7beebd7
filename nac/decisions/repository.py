import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Row, Select, Text, any_, case, cast, func, or_, select, tuple_
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.log_search import LogStretch, restrict_to_stretch
from nac.mac import normalise_mac
from nac.models import AuthLog, Certificate, Nas, Site

# Devices choose what the log holds.
_OCTETS = re.compile(r"(?:[0-9a-f]{2})+")
_SERIAL = func.encode(Certificate.serial, "hex")
# All other rows have a verdict of permit that was carried out, and one of ADMITTED_BY as reason.
_NOT_ADMITTED = or_(~AuthLog.permitted, AuthLog.verdict.in_(("quarantine", "deny")), AuthLog.monitored != "")
_ADMITTED_BY = frozenset({"rule-permitted", "fallback-permitted"})
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])
# Certificates of one common name whose serial numbers are looked for.
_MOST_SERIALS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """ "" and None leave a part out; what is given must all fit."""

    # 12 lower-case hex digits.
    mac: str = ""
    # User-Name or EAP identity, common name or serial number (hex) of the certificate; upper or lower case. What is a
    # MAC address finds the device as well.
    user: str = ""
    reason: str = ""
    # eap-tls, mab ...
    method: str = ""
    # Name of the registered NAS, NAS-Identifier or address.
    nas: str = ""
    site_id: UUID | None = None
    rejects: bool = False
    # Decided in monitor mode.
    monitored: bool = False
    since: datetime | None = None
    # permit, quarantine or deny, as policy had it.
    verdict: str = ""

    @property
    def reads_rows(self) -> bool:
        """Whether no index finds what it asks for: rows are read from the newest on until enough of them fit."""
        return bool(self.nas or self.site_id or self.reason or self.method or self.verdict) and not (
            self.mac or self.user or self.finds_refusals
        )

    @property
    def finds_refusals(self) -> bool:
        """Whether it asks for nobody who was simply admitted."""
        return (
            self.rejects
            or self.monitored
            or self.verdict in ("quarantine", "deny")
            or bool(self.reason and self.reason not in _ADMITTED_BY)
        )


def _with_places(query: Query) -> Query:
    """Of NAS and site."""
    return query.outerjoin(Nas, (Nas.tenant_id == AuthLog.tenant_id) & (Nas.id == AuthLog.nas_id)).outerjoin(
        Site, (Site.tenant_id == AuthLog.tenant_id) & (Site.id == AuthLog.site_id)
    )


_NAMED = _with_places(select(AuthLog, Nas.name, Site.slug))
_LISTED = _with_places(
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
        # Two of the three parts of reading a row would be making objects of this, most of which no list shows.
        cast(AuthLog.request, Text).label("request"),
        Nas.name.label("nas_name"),
        Site.slug.label("site_slug"),
    )
)


def list_page(
    session: Session, tenant_id: TenantId, wanted: Filter, *, before: tuple[datetime, int] | None, limit: int
) -> Sequence[Row[AuthLog, str | None, str | None]]:
    """Newest first, with the NAS's name and the site's slug as they are now."""
    query = _fitting(session, _NAMED, tenant_id, wanted).order_by(AuthLog.at.desc(), AuthLog.id.desc()).limit(limit)
    if before is not None:
        # The bound on `at` alone is what leaves out partitions.
        query = query.where(AuthLog.at <= before[0], tuple_(AuthLog.at, AuthLog.id) < before)
    return session.execute(query).all()


def list_stretch(
    session: Session, tenant_id: TenantId, wanted: Filter, stretch: LogStretch, limit: int
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Of a stretch of the log, in the order of that: the columns that lists show, `request` as text, `nas_name` and
    `site_slug`."""
    query = restrict_to_stretch(_fitting(session, _LISTED, tenant_id, wanted), AuthLog, stretch).limit(limit)
    return session.connection().execute(query).all()


def _fitting(session: Session, query: Query, tenant_id: TenantId, wanted: Filter) -> Query:
    query = query.where(AuthLog.tenant_id == tenant_id)
    if wanted.mac:
        query = query.where(AuthLog.mac == wanted.mac)
    if wanted.user:
        query = query.where(_is_of(session, tenant_id, wanted.user.lower()))
    if wanted.finds_refusals:
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
        query = query.where(_verdict() == wanted.verdict)
    if wanted.since is not None:
        query = query.where(AuthLog.at >= wanted.since)
    return query


def list_keys(
    session: Session, tenant_id: TenantId, keys: Collection[tuple[datetime, int]]
) -> Sequence[Row[AuthLog, str | None, str | None]]:
    """As `list_page`, the rows of these keys."""
    moments = [at for at, _ in keys]
    # The bounds on `at` alone are what leave out partitions.
    within = AuthLog.at.between(min(moments), max(moments)), tuple_(AuthLog.at, AuthLog.id).in_(keys)
    return session.execute(_NAMED.where(AuthLog.tenant_id == tenant_id, *within)).all()


def _is_of(session: Session, tenant_id: TenantId, name: str) -> ColumnElement[bool]:
    # A certificate that is refused for its status leaves its serial number alone in the log.
    issued = select(_SERIAL).where(Certificate.tenant_id == tenant_id, Certificate.common_name_key == func.lower(name))
    serials = [name.replace(":", ""), *session.scalars(issued.limit(_MOST_SERIALS))]
    is_of = or_(
        AuthLog.identity_key == name,
        AuthLog.common_name_key == name,
        AuthLog.certificate_serial == any_(cast(serials, ARRAY(Text()))),
    )
    mac = normalise_mac(name)
    return is_of | (AuthLog.mac == mac) if mac else is_of


def _verdict() -> ColumnElement[str]:
    """Rows of before there were verdicts have none."""
    return case((AuthLog.verdict != "", AuthLog.verdict), (AuthLog.permitted, "permit"), else_="deny")


def moment_of_row(session: Session, tenant_id: TenantId, number: int) -> datetime | None:
    """When the `number`-th newest row was written; None where there are not so many. Reads the index alone."""
    query = select(AuthLog.at).where(AuthLog.tenant_id == tenant_id).order_by(AuthLog.at.desc(), AuthLog.id.desc())
    return session.scalar(query.offset(number - 1).limit(1))


def certificate_names(session: Session, tenant_id: TenantId, serials: Collection[str]) -> Mapping[str, str]:
    """Common names of certificates that the tenant issued, by serial number in hex."""
    wanted = [bytes.fromhex(serial) for serial in serials if _OCTETS.fullmatch(serial)]
    query = select(_SERIAL, Certificate.common_name).where(
        Certificate.tenant_id == tenant_id, Certificate.serial.in_(wanted)
    )
    return dict(session.execute(query).all())
