"""Enrolment secrets of a tenant, created by an administrator and valid for one or a few uses."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Literal, get_args
from uuid import UUID

from sqlalchemy.orm import Session

from nac.certificates import intents
from nac.certificates import repository as certificates
from nac.certificates.certificate_names import require_no_server_name
from nac.certificates.enrolment import repository
from nac.certificates.enrolment.errors import (
    EnrolmentAddressNotFound,
    EnrolmentSecretNotFound,
    InvalidEnrolmentSecret,
    RefusalReason,
    SecretRefused,
)
from nac.certificates.enrolment.repository import ORDERS as ORDERS
from nac.certificates.errors import translate_pki_errors
from nac.certificates.holders import find_holder
from nac.certificates.issuance import CLIENT_PROFILES
from nac.certificates.profiles import require_profile
from nac.certificates.supplicants.network import require_ssid
from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.bearer_secret import BearerSecret
from nac.kit.clock import utc_now
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists
from nac.kit.ids import TenantId
from nac.kit.validation import require_name, require_slug
from nac.models import Certificate, EnrolmentSecret, Tenant
from nac.models.enrolment import EnrolmentKind
from nac.tenancy.tenants import repository as tenants
from pki.issuance import check_sans
from pki.names import parse_san, subject_name

SecretStatus = Literal["open", "used", "expired", "revoked"]
ENROLMENT_KINDS: tuple[EnrolmentKind, ...] = get_args(EnrolmentKind)
DEFAULT_LIFETIME = timedelta(days=7)
MAX_LIFETIME = timedelta(days=365)
MAX_USES = 10_000
_audit: audit.AuditRecorder[EnrolmentSecret] = audit.AuditRecorder("enrolment-secret", lambda secret: secret.public_id)
_MAX_CLAIM_LENGTH = 64
_SPENT_REASONS: tuple[RefusalReason, ...] = ("used", "expired")


class EnrolmentSecretText(BearerSecret):
    """An enrolment secret as text, in the form `<public id>-<secret>`."""

    __slots__ = ()
    purpose: ClassVar[bytes] = b"admit enrolment secret 1\0"


@dataclass(frozen=True, slots=True)
class CreatedSecret:
    """A new secret. `token` is the only copy of the secret's text, because Admit stores only a hash."""

    row: EnrolmentSecret
    token: EnrolmentSecretText = field(repr=False)


@dataclass(frozen=True, slots=True)
class LockedSecret:
    """A valid secret that a device sent. The secret's row is locked, so concurrent redemptions wait."""

    row: EnrolmentSecret
    # Why Admit issues no further certificate for the secret (used up or expired); None if Admit can issue certificates.
    refusal: RefusalReason | None

    def take(self, now: datetime) -> EnrolmentSecret:
        """Count one use of the secret. Raises SecretRefused if the secret is used up or expired."""
        if self.refusal is not None:
            raise SecretRefused(self.refusal)
        self.row.uses += 1
        self.row.last_used_at = now
        return self.row


def create_secret(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    kind: EnrolmentKind,
    profile: str,
    now: datetime,
    name: str | None = None,
    common_name: str | None = None,
    sans: Sequence[str] = (),
    endpoint_mac: str | None = None,
    user_name: str | None = None,
    owner: str = "",
    ssid: str = "",
    uses: int = 1,
    any_name: bool = False,
    life: timedelta = DEFAULT_LIFETIME,
) -> CreatedSecret:
    """Create a secret for up to `uses` certificates of `profile`, valid for the time `life`.

    If you set a common name or alternative names (`kind:value`), certificates for this secret can have only these
    names. The default common name is the name of the endpoint or user. If the secret has no name, the requester chooses
    the names. A secret for one use must have a name or `any_name`. Raises InvalidEnrolmentSecret or CertificateRefused.
    """
    _require_limits(kind, profile, uses, life)
    holder = find_holder(session, tenant_id=tenant_id, mac=endpoint_mac, user_name=user_name)
    common_name = holder.name if common_name is None else common_name
    rules = require_profile(session, tenant_id, profile)
    with translate_pki_errors():
        names = check_sans(rules, map(parse_san, sans)) if sans else ()
        if common_name is not None:
            subject_name(common_name)
    if kind == "link" and common_name is None:
        raise InvalidEnrolmentSecret(
            "An enrolment link needs a name.", place="common_name", remedy="Set the common name."
        )
    is_bound = common_name is not None or bool(names)
    _require_name_binding(is_bound=is_bound, uses=uses, any_name=any_name)
    require_no_server_name(
        certificates.list_server_certificates(session, tenant_id, now), common_name=common_name, sans=names
    )
    if name is not None:
        _require_unused_name(session, tenant_id, name)
    token = EnrolmentSecretText.make()
    row = EnrolmentSecret(
        tenant_id=tenant_id,
        public_id=token.public_id,
        kind=kind,
        name=name,
        secret_sha256=token.digest(),
        profile=profile,
        common_name=common_name,
        sans=[str(item) for item in names],
        endpoint_id=holder.endpoint_id,
        user_id=holder.user_id,
        owner=require_name(owner, place="owner") if owner else "",
        ssid=require_ssid(ssid),
        most_uses=uses,
        uses=0,
        expires_at=now + life,
        created_by=actor,
    )
    session.add(row)
    session.flush()
    _audit(session, actor, row, "create", after=describe_secret(row))
    return CreatedSecret(row, token)


def _require_limits(kind: str, profile: str, uses: int, life: timedelta) -> None:
    for value, choices, place in ((kind, ENROLMENT_KINDS, "kind"), (profile, CLIENT_PROFILES, "profile")):
        if value not in choices:
            raise InvalidEnrolmentSecret(
                f"Unknown {place} {value!r}.", place=place, remedy=f"Use one of: {', '.join(choices)}."
            )
    if not 1 <= uses <= MAX_USES:
        raise InvalidEnrolmentSecret(
            f"Invalid number of uses: {uses}.", place="uses", remedy=f"Set 1 to {MAX_USES} uses."
        )
    if not timedelta() < life <= MAX_LIFETIME:
        raise InvalidEnrolmentSecret(
            "Invalid lifetime.", place="life", remedy=f"Set a lifetime above 0 and up to {MAX_LIFETIME.days} days."
        )


def _require_name_binding(*, is_bound: bool, uses: int, any_name: bool) -> None:
    if is_bound and any_name:
        raise InvalidEnrolmentSecret(
            "The secret has a name, but any_name permits every name.",
            place="any_name",
            remedy="Remove the name, or turn any_name off.",
        )
    if not is_bound and uses == 1 and not any_name:
        raise InvalidEnrolmentSecret(
            "A secret for one use needs the name of one device.",
            place="common_name",
            remedy="Set a name, an endpoint or a user. If the device chooses its own name, allow any name (any_name).",
        )


def _require_unused_name(session: Session, tenant_id: TenantId, name: str) -> None:
    require_slug(name, place="name")
    if repository.get_by_name(session, tenant_id, name):
        raise AlreadyExists(f"Enrolment secret {name!r} already exists.", place="name")


def redeem_secret(
    session: Session, *, tenant_id: TenantId, kind: EnrolmentKind, name: str, secret: str, now: datetime
) -> EnrolmentSecret:
    """Count one use of the secret, and lock the secret until the commit. `name` is the secret's public id or name.

    Two concurrent requests cannot share the last use. A failed request does not count as a use, because its transaction
    is rolled back. If a signature fails, the use does not count either: the next request after `intents.STALE_AFTER`
    subtracts the use. Raises SecretRefused. The caller records this error in a separate transaction (`record_refusal`).
    """
    return lock_secret(session, tenant_id=tenant_id, kind=kind, name=name, secret=secret, now=now).take(now)


def lock_secret(
    session: Session, *, tenant_id: TenantId, kind: EnrolmentKind, name: str, secret: str, now: datetime
) -> LockedSecret:
    """Check and lock the secret like `redeem_secret`, but do not count a use.

    Also returns secrets that are used up or expired, if their text is correct. Raises SecretRefused for all other
    secrets that Admit rejects.
    """
    certificates.lock_tenant_shared(session, tenant_id)
    row = repository.lock_by_name(session, tenant_id, name) if name.isprintable() and len(name) <= 64 else None
    why = _find_refusal_reason(session, row, kind, secret, now)
    if row is None or (why is not None and why not in _SPENT_REASONS):
        raise SecretRefused(why or "unknown")
    return LockedSecret(row, why)


def _return_abandoned_uses(session: Session, row: EnrolmentSecret, now: datetime) -> bool:
    """Abandon stale unsigned certificates of the secret, and subtract their number from the secret's number of uses.

    Waits until running signatures are complete. Returns whether the number changed.
    """
    of_it, age = Certificate.secret_id == row.id, intents.STALE_AFTER
    actor = f"{row.kind}:{row.public_id}"
    intents.wait_for_signatures(session, tenant_id=row.tenant_id, which=of_it)
    abandoned = intents.abandon_intents(
        session, actor=actor, tenant_id=row.tenant_id, which=of_it, now=now, older_than=age
    )
    session.refresh(row)
    return abandoned > 0


def require_redeemable(
    session: Session, *, tenant_id: TenantId, kind: EnrolmentKind, name: str, secret: str, now: datetime
) -> EnrolmentSecret:
    """Check a secret like `redeem_secret`, but do not lock the secret or count a use."""
    row = repository.get_by_name(session, tenant_id, name)
    if why := _find_refusal_reason(session, row, kind, secret, now):
        raise SecretRefused(why)
    assert row is not None
    return row


def _find_refusal_reason(
    session: Session, row: EnrolmentSecret | None, kind: EnrolmentKind, secret: str, now: datetime
) -> RefusalReason | None:
    """Return why Admit rejects the secret, or None.

    Checks the secret's text first, because only the holder of the secret may learn the other reasons.
    """
    if row is None:
        return "unknown"
    if not EnrolmentSecretText(row.public_id, secret).is_of(row.secret_sha256):
        return "wrong-secret"
    if row.kind != kind:
        return "wrong-kind"
    if row.revoked_at is not None:
        return "revoked"
    tenant = session.get(Tenant, row.tenant_id)
    if tenant is None or tenant.status != "active":
        return "tenant-inactive"
    if is_holder_barred(session, row.tenant_id, row.endpoint_id, row.user_id):
        return "holder-barred"
    # The reasons "used" and "expired" come last: for a repeated request, the caller ignores only these two reasons.
    if row.uses >= row.most_uses and not _return_abandoned_uses(session, row, now):
        return "used"
    return "expired" if row.expires_at <= now else None


def is_holder_barred(session: Session, tenant_id: TenantId, endpoint_id: UUID | None, user_id: UUID | None) -> bool:
    """Whether the endpoint is blocked or the user is disabled. In this case, Admit issues no certificate."""
    endpoint = repository.get_endpoint(session, tenant_id, endpoint_id) if endpoint_id else None
    user = repository.get_user(session, tenant_id, user_id) if user_id else None
    return bool((endpoint and endpoint.status == "blocked") or (user and user.disabled))


def record_refusal(session: Session, *, actor: str, tenant_id: TenantId, name: str, refused: SecretRefused) -> None:
    """Record in the audit log which secret Admit rejected and why, without the text of the secret."""
    claimed = "".join(character for character in name if character.isprintable())[:_MAX_CLAIM_LENGTH]
    audit.append(
        session,
        actor=actor,
        action="enrolment-secret.refuse",
        target=claimed or "-",
        tenant_id=tenant_id,
        after={"why": refused.why},
    )


def require_tenant(session: Session, *, slug: str) -> TenantId:
    """Return the active tenant with this slug. Requires a session in PlatformScope. Raises EnrolmentAddressNotFound."""
    tenant = tenants.get_by_slug(session, slug) if slug.isprintable() else None
    if tenant is None or tenant.status != "active":
        raise EnrolmentAddressNotFound("Unknown enrolment URL.")
    return tenant.id


def find_tenant_id(session: Session, public_id: str) -> TenantId | None:
    """Return the id of a secret's tenant. Requires a session in the EnrolmentScope of `public_id`."""
    row = repository.get_by_public_id(session, public_id)
    return row.tenant_id if row else None


def list_unknown_authorities(session: Session, known: Collection[UUID]) -> Sequence[tuple[UUID, bytes]]:
    """Return id and certificate (DER) of all tenants' authorities, except the ids `known`.

    The TLS server uses these authorities to check client certificates.
    """
    return repository.list_unknown_authorities(session, known)


def revoke_secret(session: Session, *, actor: str, tenant_id: TenantId, name: str) -> EnrolmentSecret:
    """Revoke the secret. Certificates that devices got with the secret stay valid. A repeated call changes nothing."""
    row = require_secret(session, tenant_id=tenant_id, name=name, lock=True)
    if row.revoked_at is None:
        row.revoked_at = utc_now()
        session.flush()
        _audit(session, actor, row, "revoke", after={"uses": row.uses})
    return row


def require_secret(session: Session, *, tenant_id: TenantId, name: str, lock: bool = False) -> EnrolmentSecret:
    """Return the secret with the public id or name `name`. Raises EnrolmentSecretNotFound."""
    row = (repository.lock_by_name if lock else repository.get_by_name)(session, tenant_id, name)
    if row is None:
        raise _not_found_error(name)
    return row


def _not_found_error(name: str) -> EnrolmentSecretNotFound:
    return EnrolmentSecretNotFound(
        f"Unknown enrolment secret {name!r}.",
        place="name",
        remedy=Advice("List enrolment secrets", "listEnrolmentSecrets"),
    )


def list_secrets(session: Session, *, tenant_id: TenantId, span: PageSpan | None = None) -> Sequence[EnrolmentSecret]:
    return repository.list_page(session, tenant_id, span=span or ORDERS.first())


def get_status(row: EnrolmentSecret, now: datetime) -> SecretStatus:
    if row.revoked_at is not None:
        return "revoked"
    if row.uses >= row.most_uses:
        return "used"
    return "expired" if row.expires_at <= now else "open"


def describe_secret(row: EnrolmentSecret) -> dict[str, object]:
    """Return the fields of the secret that the audit log records."""
    return {
        "id": row.public_id,
        "kind": row.kind,
        "name": row.name,
        "profile": row.profile,
        "common_name": row.common_name,
        "sans": list(row.sans),
        "owner": row.owner,
        "ssid": row.ssid,
        "uses": row.uses,
        "most_uses": row.most_uses,
        "expires_at": row.expires_at.isoformat(),
    }
