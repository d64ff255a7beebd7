"""Identity sources of a tenant: directories and providers that verify users.

Admit queries the sources in the order of their positions. Sources with equal positions are in the order of their names.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.identity_sources.settings import (
    SECRET_BOUND_SETTINGS,
    SETTINGS_BY_KIND,
    LdapSettings,
    OidcSettings,
    SettingsRefused,
    list_hosts,
    read_settings,
)
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import lock_quota
from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.outbound.reach import PLATFORM_REMEDY as REACH_REMEDY
from nac.kit.outbound.reach import OutboundReach, is_address
from nac.kit.sealing import Seal
from nac.kit.validation import require_slug
from nac.models import IdentitySource

MAX_SOURCES = 20
DEFAULT_POSITION = 100
_MAX_SECRET_OCTETS = 1_024
_audit: audit.AuditRecorder[IdentitySource] = audit.AuditRecorder("identity-source", lambda source: source.name)
_NAME = IdentitySource.name
ORDERS = SortOrders(
    {"position": (IdentitySource.position, _NAME), "name": (_NAME,), "kind": (IdentitySource.kind, _NAME)}
)


class IdentitySourceNotFound(NotFound):
    """The identity source does not exist."""


class InvalidIdentitySource(InvalidInput):
    """The settings of the identity source are invalid."""


def create_source(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    name: str,
    kind: str,
    settings: Mapping[str, Any],
    secret: str | None,
    seal: Seal,
    reach: OutboundReach,
    position: int = DEFAULT_POSITION,
    enabled: bool = True,
) -> IdentitySource:
    """Create an identity source. `secret` is the password of bind_dn, or the client secret of a provider.

    Raises InvalidIdentitySource with all mistakes.
    """
    name = require_slug(name, place="name")
    if _get_source(session, tenant_id, name):
        raise AlreadyExists(f"Identity source {name!r} already exists.", place="name")
    lock_quota(session, "identity-sources", tenant_id)
    if len(list_sources(session, tenant_id=tenant_id)) >= MAX_SOURCES:
        raise Conflict(f"A tenant can have at most {MAX_SOURCES} identity sources.")
    source_id = uuid4()
    source = IdentitySource(
        id=source_id,
        tenant_id=tenant_id,
        name=name,
        kind=kind,
        position=_require_position(position),
        enabled=enabled,
        settings=_normalise_settings(kind, settings, reach),
        secret_sealed=None if secret is None else _seal_secret(source_id, secret, seal),
    )
    _require_secret(source)
    session.add(source)
    session.flush()
    _audit(session, actor, source, "add", after=describe(source))
    return source


def update_source(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    name: str,
    seal: Seal,
    reach: OutboundReach,
    settings: Mapping[str, Any] | None = None,
    secret: str | None = None,
    position: int | None = None,
    enabled: bool | None = None,
) -> IdentitySource:
    """Change an identity source. `settings` contains only changed settings; the value None restores the default."""
    source = require_by_name(session, tenant_id=tenant_id, name=name)
    before = describe(source)
    if settings:
        merged = {key: value for key, value in ({**source.settings, **settings}).items() if value is not None}
        _require_secret_again(source, merged, secret)
        source.settings = _normalise_settings(source.kind, merged, reach)
    if secret is not None:
        source.secret_sealed = _seal_secret(source.id, secret, seal)
    if position is not None:
        source.position = _require_position(position)
    if enabled is not None:
        source.enabled = enabled
    _require_secret(source)
    if secret is None and describe(source) == before:
        return source
    # Cells discard cached results of the source if this time changes. So set it even if only the secret changes.
    source.updated_at = utc_now()
    session.flush()
    after = describe(source) | ({"secret": "changed"} if secret is not None else {})
    _audit(session, actor, source, "change", before=before, after=after)
    return source


def _require_secret_again(source: IdentitySource, settings: Mapping[str, Any], secret: str | None) -> None:
    """Raise an error if `settings` change the server that receives the secret, and `secret` is missing.

    Without this check, a person who cannot read the secret could make Admit send the stored secret to another server.
    """
    changed = sorted(name for name in SECRET_BOUND_SETTINGS if settings.get(name) != source.settings.get(name))
    if changed and source.secret_sealed is not None and secret is None:
        raise InvalidIdentitySource(
            f"You changed {', '.join(changed)}, but the stored secret is only for the previous server.",
            place="secret",
            remedy="Enter the secret again.",
        )


def delete_source(session: Session, *, actor: str, tenant_id: TenantId, name: str) -> None:
    source = require_by_name(session, tenant_id=tenant_id, name=name)
    session.delete(source)
    session.flush()
    _audit(session, actor, source, "remove", before=describe(source))


def list_sources(session: Session, *, tenant_id: TenantId) -> Sequence[IdentitySource]:
    """List sources in the order in which Admit queries them."""
    query = select(IdentitySource).where(IdentitySource.tenant_id == tenant_id)
    return session.scalars(query.order_by(IdentitySource.position, IdentitySource.name)).all()


def list_page(
    session: Session,
    *,
    tenant_id: TenantId,
    span: PageSpan,
    text: str = "",
    kind: str = "",
    enabled: bool | None = None,
) -> Sequence[IdentitySource]:
    """List a page of sources. `text` filters by a part of the name."""
    query = select(IdentitySource).where(IdentitySource.tenant_id == tenant_id)
    if text:
        query = query.where(contains_text(text, IdentitySource.name))
    if kind:
        query = query.where(IdentitySource.kind == kind)
    if enabled is not None:
        query = query.where(IdentitySource.enabled == enabled)
    return session.scalars(span.of(query)).all()


def require_by_name(session: Session, *, tenant_id: TenantId, name: str) -> IdentitySource:
    source = _get_source(session, tenant_id, name)
    if source is None:
        raise IdentitySourceNotFound(
            f"Identity source {name!r} does not exist.",
            place="name",
            remedy=Advice("List identity sources", "listIdentitySources"),
        )
    return source


def describe(source: IdentitySource) -> dict[str, Any]:
    """Return the values of the source for responses and the audit log, without the secret."""
    return {
        "name": source.name,
        "kind": source.kind,
        "position": source.position,
        "enabled": source.enabled,
        "secret": "set" if source.secret_sealed else "none",
        "settings": source.settings,
    }


def secret_context(source_id: UUID) -> str:
    return f"identity-source:{source_id}"


def _normalise_settings(kind: str, settings: Mapping[str, Any], reach: OutboundReach) -> dict[str, Any]:
    """Check the settings, and return them in normalised form, as JSON values."""
    read = _parse_settings(kind, settings)
    _require_reach(read, reach)
    understood: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(read))
    return {name: understood[name] for name in settings}


def check_source(source: IdentitySource) -> None:
    """Check a source from another installation of Admit. Raises InvalidInput.

    Does not check the secret. Does not check whether the servers' addresses are permitted, because each login does so.
    """
    require_slug(source.name, place="name")
    _require_position(source.position)
    _parse_settings(source.kind, source.settings)


def _parse_settings(kind: str, settings: Mapping[str, Any]) -> LdapSettings | OidcSettings:
    if kind not in SETTINGS_BY_KIND:
        raise InvalidIdentitySource(
            f"Unknown kind of source {kind!r}.", place="kind", remedy=f"Use the kind {' or '.join(SETTINGS_BY_KIND)}."
        )
    try:
        return read_settings(kind, settings)
    except SettingsRefused as exc:
        listed = "; ".join(f"{place}: {what}" for place, what in exc.mistakes)
        raise InvalidIdentitySource(
            listed + ".", place="settings", remedy="docs/how-to/identity-sources.md lists all settings."
        ) from exc


def _require_reach(settings: LdapSettings | OidcSettings, reach: OutboundReach) -> None:
    """Check that Admit may connect to the IP addresses in the settings.

    Does not check host names, because each login looks up and checks the addresses of a host name.
    """
    whys = [why for host in list_hosts(settings) if is_address(host) and (why := reach.why_not(host))]
    if whys:
        raise InvalidIdentitySource("; ".join(whys) + ".", place="settings", remedy=REACH_REMEDY)


def _require_secret(source: IdentitySource) -> None:
    if source.settings.get("bind_dn") and source.secret_sealed is None:
        raise InvalidIdentitySource(
            "The account bind_dn needs a password.",
            place="secret",
            remedy=Advice("Set the password.", NextStep(parameters={"secret": ""})),
        )


def _require_position(position: int) -> int:
    if not 1 <= position <= 1000:
        raise InvalidIdentitySource(
            f"Invalid position {position}.", place="position", remedy="Set a position from 1 to 1000."
        )
    return position


def _seal_secret(source_id: UUID, secret: str, seal: Seal) -> bytes:
    if not secret or "\0" in secret or len(secret.encode()) > _MAX_SECRET_OCTETS:
        raise InvalidIdentitySource(
            "The secret is empty or too long, or contains NUL.",
            place="secret",
            remedy=f"Use a secret of 1 to {_MAX_SECRET_OCTETS} octets.",
        )
    return seal(secret.encode(), secret_context(source_id))


def _get_source(session: Session, tenant_id: TenantId, name: str) -> IdentitySource | None:
    return session.scalar(
        select(IdentitySource).where(IdentitySource.tenant_id == tenant_id, IdentitySource.name == name)
    )
