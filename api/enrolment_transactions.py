"""Transactions that redeem an enrolment secret or renew a certificate.

The module limits guesses and audits rejections.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from cryptography import x509
from fastapi import Request
from sqlalchemy.orm import Session

from api.application_state import get_guess_limiter
from nac.certificates.enrolment import service as enrolment
from nac.certificates.enrolment.certificate_enrolment import record_renewal_refusal
from nac.certificates.enrolment.errors import RenewalRefused, SecretRefused
from nac.certificates.enrolment.service import EnrolmentSecretText, LockedSecret
from nac.kit.clock import utc_now
from nac.kit.db import EnrolmentScope, PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import EnrolmentSecret
from nac.models.enrolment import EnrolmentKind

# Admit counts guesses under this id if the link belongs to no tenant.
_NO_TENANT_ID = TenantId(UUID(int=0))


def require_tenant_by_slug(slug: str) -> TenantId:
    """Return the id of the tenant. Raises EnrolmentAddressNotFound if the tenant does not exist or is not active."""
    with session_scope(PlatformScope()) as session:
        return enrolment.require_tenant(session, slug=slug)


def require_link_tenant(request: Request, token: EnrolmentSecretText | None) -> TenantId:
    """Return the id of the tenant that created the link. Raises SecretRefused or TooManyGuesses."""
    limiter = get_guess_limiter(request)
    limiter.require(_NO_TENANT_ID, client_address(request))
    if token is not None:
        with session_scope(EnrolmentScope(token.public_id)) as session:
            if (tenant_id := enrolment.find_tenant_id(session, token.public_id)) is not None:
                return tenant_id
    limiter.note(_NO_TENANT_ID, client_address(request))
    raise SecretRefused("unknown")


def client_address(request: Request) -> str:
    return request.client.host if request.client else ""


@contextmanager
def redeem_secret(
    request: Request, *, tenant_id: TenantId, kind: EnrolmentKind, name: str, secret: str
) -> Iterator[tuple[Session, EnrolmentSecret]]:
    """Open a transaction that uses the secret once. The transaction rolls back if the block raises an error.

    Send the certificate only after the end of the block. Raises SecretRefused or TooManyGuesses.
    """
    with _limit_guesses(request, tenant_id, kind, name), session_scope(TenantScope(tenant_id)) as session:
        yield (
            session,
            enrolment.redeem_secret(session, tenant_id=tenant_id, kind=kind, name=name, secret=secret, now=utc_now()),
        )


@contextmanager
def hold_secret(
    request: Request, *, tenant_id: TenantId, kind: EnrolmentKind, name: str, secret: str
) -> Iterator[tuple[Session, LockedSecret]]:
    """Open a transaction that locks the secret.

    The block counts a use with LockedSecret.take, because the secret may have no uses left.
    """
    with _limit_guesses(request, tenant_id, kind, name), session_scope(TenantScope(tenant_id)) as session:
        yield (
            session,
            enrolment.lock_secret(session, tenant_id=tenant_id, kind=kind, name=name, secret=secret, now=utc_now()),
        )


@contextmanager
def view_secret(
    request: Request, *, tenant_id: TenantId, kind: EnrolmentKind, name: str, secret: str
) -> Iterator[tuple[Session, EnrolmentSecret]]:
    """Open a transaction that checks the secret without counting a use of the secret."""
    with _limit_guesses(request, tenant_id, kind, name), session_scope(TenantScope(tenant_id)) as session:
        yield (
            session,
            enrolment.require_redeemable(
                session, tenant_id=tenant_id, kind=kind, name=name, secret=secret, now=utc_now()
            ),
        )


@contextmanager
def _limit_guesses(request: Request, tenant_id: TenantId, kind: EnrolmentKind, name: str) -> Iterator[None]:
    limiter = get_guess_limiter(request)
    address = client_address(request)
    limiter.require(tenant_id, address)
    try:
        yield
    except SecretRefused as exc:
        limiter.note(tenant_id, address)
        with session_scope(TenantScope(tenant_id)) as session:
            enrolment.record_refusal(session, actor=f"{kind}:{address}", tenant_id=tenant_id, name=name, refused=exc)
        raise


@contextmanager
def open_renewal(request: Request, *, tenant_id: TenantId, actor: str, shown: x509.Certificate) -> Iterator[Session]:
    """Open a transaction that renews the certificate.

    Too many rejected requests block the address, because anyone can send a forged request.

    Raises RenewalRefused or TooManyGuesses.
    """
    limiter = get_guess_limiter(request)
    limiter.require(tenant_id, client_address(request))
    try:
        with session_scope(TenantScope(tenant_id)) as session:
            yield session
    except RenewalRefused as refused:
        limiter.note(tenant_id, client_address(request))
        with session_scope(TenantScope(tenant_id)) as session:
            record_renewal_refusal(session, actor=actor, tenant_id=tenant_id, shown=shown, refused=refused)
        raise
