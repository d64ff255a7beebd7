"""A tenant's key store, and the tenant's overrides of certificate profiles (validity, key type).

Admit checks the overrides when it writes and when it reads them, because a new version of Admit may narrow the limits
of a profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.core.audit import service as audit
from nac.kit.errors import InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.models import CertificateSettings
from pki.errors import ProfileErrors
from pki.profiles import PROFILES, CertificateProfile, adjust_profile

# Where Admit stores the keys of new authorities: encrypted in the database ("sealed"), or in a PKCS#11 token.
KeyStoreName = Literal["sealed", "pkcs11"]
KeyStoreChoice = Literal["", "sealed", "pkcs11"]


class ProfileNotFound(NotFound):
    """The certificate profile does not exist."""


class ProfileRefused(InvalidInput):
    """The tenant's overrides of the certificate profile are not valid."""


@dataclass(frozen=True, slots=True)
class TenantCertificateSettings:
    profiles: Mapping[str, Mapping[str, Any]]
    key_store: KeyStoreChoice


def get_certificate_settings(session: Session, tenant_id: TenantId, *, lock: bool = False) -> TenantCertificateSettings:
    """Return the tenant's certificate settings. `lock` prevents changes until the transaction ends."""
    if lock:
        repository.lock_tenant(session, tenant_id)
    row = session.get(CertificateSettings, tenant_id, populate_existing=lock)
    if row is None:
        return TenantCertificateSettings({}, "")
    return TenantCertificateSettings(row.profiles, row.key_store)


def require_profile(session: Session, tenant_id: TenantId, name: str, *, lock: bool = False) -> CertificateProfile:
    """Return a profile with the tenant's overrides.

    Raises ProfileNotFound, or ProfileRefused if a stored override exceeds the profile's current limits.
    """
    return resolve_profile(name, get_certificate_settings(session, tenant_id, lock=lock).profiles)


def resolve_profile(name: str, profiles: Mapping[str, Mapping[str, Any]]) -> CertificateProfile:
    """Return the profile `name` with the overrides that `profiles` has for this name.

    Raises ProfileNotFound or ProfileRefused.
    """
    return _apply_choice(name, profiles.get(name, {}))


def list_profiles(session: Session, *, tenant_id: TenantId) -> list[CertificateProfile]:
    chosen = get_certificate_settings(session, tenant_id).profiles
    return [_apply_choice(name, chosen.get(name, {})) for name in PROFILES]


def update_profile(
    session: Session, *, actor: str, tenant_id: TenantId, name: str, choice: Mapping[str, Any]
) -> CertificateProfile:
    """Replace the tenant's overrides of a profile, such as {"validity_days": 90, "key": "rsa-2048"}.

    {} restores the default. Issued certificates do not change.
    """
    profile = _apply_choice(name, choice)
    row = _get_or_create_row(session, tenant_id)
    before = row.profiles.get(name, {})
    others = {other: kept for other, kept in row.profiles.items() if other != name}
    row.profiles = others | ({name: dict(choice)} if choice else {})
    session.flush()
    _audit(session, actor, tenant_id, name, before, choice)
    return profile


def update_key_store(session: Session, *, actor: str, tenant_id: TenantId, store: KeyStoreChoice) -> None:
    """Set the key store for the tenant's new authorities."""
    row = _get_or_create_row(session, tenant_id)
    before, row.key_store = row.key_store, store
    session.flush()
    _audit(session, actor, tenant_id, "key-store", {"key_store": before}, {"key_store": store})


def _apply_choice(name: str, choice: Mapping[str, Any]) -> CertificateProfile:
    profile = PROFILES.get(name)
    if profile is None:
        raise ProfileNotFound(
            f"Unknown profile {name!r}.", place="profile", remedy=f"Use one of: {', '.join(PROFILES)}."
        )
    try:
        return adjust_profile(profile, choice)
    except ProfileErrors as exc:
        raise ProfileRefused("; ".join(exc.mistakes), place="profile") from exc


def _get_or_create_row(session: Session, tenant_id: TenantId) -> CertificateSettings:
    repository.lock_tenant(session, tenant_id)
    # The session may contain the row's values from before the lock, so read the row again.
    row = session.get(CertificateSettings, tenant_id, populate_existing=True)
    if row is None:
        row = CertificateSettings(tenant_id=tenant_id)
        session.add(row)
        session.flush()
    return row


def _audit(
    session: Session,
    actor: str,
    tenant_id: TenantId,
    target: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> None:
    """Record the changed settings in the audit log, with None for a setting that has its default value."""
    if changed := [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]:
        audit.append(
            session,
            actor=actor,
            action="certificate-settings.set",
            target=target,
            tenant_id=tenant_id,
            before={key: before.get(key) for key in changed},
            after={key: after.get(key) for key in changed},
        )
