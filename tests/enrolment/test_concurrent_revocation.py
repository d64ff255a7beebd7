"""Revocation during a renewal or an enrolment: the new certificate does not remain valid."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from cryptography import x509
from sqlalchemy import Engine, select, text

from nac.certificates import repository as certificate_repository
from nac.certificates import service as certificates
from nac.certificates.bulk_revocation import revoke_authority
from nac.certificates.enrolment import certificate_enrolment
from nac.certificates.enrolment import service as enrolment
from nac.certificates.enrolment.errors import RenewalRefused
from nac.certificates.enrolment.service import CreatedSecret
from nac.certificates.service import IssuedCertificate
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Conflict
from nac.models import Certificate
from tests.enrolment.conftest import make_secret, request
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR
from tests.polling import until

_WAITING = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


def revoke(app_engine: Engine, of: Certified, which: str) -> None:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        revoke_authority(session, actor=ACTOR, tenant_id=of.tenant_id, which=which, now=of.now)


def enrol(app_engine: Engine, of: Certified, secret: CreatedSecret) -> IssuedCertificate:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        redeemed = enrolment.redeem_secret(
            session,
            tenant_id=of.tenant_id,
            kind="est",
            name=secret.token.public_id,
            secret=secret.token.secret,
            now=of.now,
        )
        return certificate_enrolment.enrol(
            session, actor=ACTOR, secret=redeemed, request=request("laptop"), signing=SIGNING, now=of.now
        )


def renew(app_engine: Engine, of: Certified, shown: x509.Certificate, between: Callable[[], None]) -> IssuedCertificate:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        old = certificate_enrolment.require_renewable(session, tenant_id=of.tenant_id, shown=shown, now=of.now)
        between()
        return certificate_enrolment.renew(
            session, actor=ACTOR, old=old, request=request("laptop"), signing=SIGNING, now=of.now
        )


def statuses(app_engine: Engine, of: Certified) -> list[str]:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        return list(session.scalars(select(Certificate.status).where(Certificate.profile == "eap-client-device")))


def assert_nothing_is_good(left: list[str]) -> None:
    """Assert that no certificate is valid.

    The renewal was signed before the revocation read it, or the revocation cancelled its intent.
    """
    assert sorted(left) in (["revoked", "revoked"], ["abandoned", "revoked"])


@pytest.fixture
def start_until_locked(owner_engine: Engine):
    """Run a call in a thread until the call waits for a lock."""
    with ThreadPoolExecutor(1) as pool:

        def start(call: Callable[..., Any], *arguments: Any) -> Future[Any]:
            future = pool.submit(call, *arguments)
            with owner_engine.connect() as connection:
                until(lambda: future.done() or connection.scalar(_WAITING), "it waits for a lock")
            assert not future.done()
            return future

        yield start


@pytest.mark.parametrize("which", ["issuing", "root"])
def test_certificate_of_a_revoked_authority_is_not_renewed(app_engine, alpha, which):
    """The status of the authority suffices, for any status of the certificate."""
    shown = enrol(app_engine, alpha, make_secret(app_engine, alpha)).certificate
    revoke(app_engine, alpha, which)
    for status in ("revoked", "valid"):
        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            session.scalars(select(Certificate).where(Certificate.profile == "eap-client-device")).one().status = status
        with pytest.raises(RenewalRefused, match="The authority of the certificate is revoked"):
            renew(app_engine, alpha, shown, lambda: None)


@pytest.mark.parametrize("which", ["issuing", "root"])
def test_pending_renewal_is_revoked_with_its_authority(app_engine, alpha, start_until_locked, which):
    shown = enrol(app_engine, alpha, make_secret(app_engine, alpha)).certificate
    revoking: list[Future[Any]] = []
    with contextlib.suppress(Conflict):
        renew(app_engine, alpha, shown, lambda: revoking.append(start_until_locked(revoke, app_engine, alpha, which)))
    revoking[0].result(10)
    assert_nothing_is_good(statuses(app_engine, alpha))


def test_authority_being_revoked_issues_nothing(app_engine, alpha, start_until_locked):
    secret = make_secret(app_engine, alpha)
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        revoke_authority(session, actor=ACTOR, tenant_id=alpha.tenant_id, which="issuing", now=alpha.now)
        enrolling_ = start_until_locked(enrol, app_engine, alpha, secret)
    with pytest.raises(Conflict, match=r"no active issuing authority\. Create an authority: rollOverAuthorities"):
        enrolling_.result(10)
    assert statuses(app_engine, alpha) == []
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        assert [row.uses for row in enrolment.list_secrets(session, tenant_id=alpha.tenant_id)] == [0]


def test_revoking_an_authority_waits_only_for_current_requests(app_engine, owner_engine, alpha):
    secrets = [make_secret(app_engine, alpha) for _ in range(2)]
    done: list[str] = []

    def first() -> None:
        revoke(app_engine, alpha, "issuing")
        done.append("revoked")

    def second() -> None:
        with suppress(Conflict):
            enrol(app_engine, alpha, secrets[1])
        done.append("enrolled")

    with owner_engine.connect() as connection, ThreadPoolExecutor(2) as pool:
        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            certificate_repository.lock_tenant_shared(session, alpha.tenant_id)
            for number, each in enumerate((first, second), 1):
                pool.submit(each)
                until(lambda number=number: done or connection.scalar(_WAITING) == number, "it waits for a lock")
        pool.shutdown()
    assert done == ["revoked", "enrolled"]
    assert statuses(app_engine, alpha) == []


def revoke_one(app_engine: Engine, of: Certified, serial: bytes, reason: Any) -> None:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        certificates.revoke_certificate(
            session, actor=ACTOR, tenant_id=of.tenant_id, serial=serial.hex(), now=of.now, reason=reason
        )


@pytest.mark.parametrize(
    ("reason", "left"), [("keyCompromise", ["revoked"] * 3), ("superseded", ["revoked", "valid", "valid"])]
)
def test_renewed_certificate_is_revoked_unless_superseded(app_engine, alpha, reason, left):
    first = enrol(app_engine, alpha, make_secret(app_engine, alpha))
    second = renew(app_engine, alpha, first.certificate, lambda: None)
    renew(app_engine, alpha, second.certificate, lambda: None)
    other = enrol(app_engine, alpha, make_secret(app_engine, alpha))
    revoke_one(app_engine, alpha, first.serial, reason)
    assert sorted(statuses(app_engine, alpha)) == sorted([*left, "valid"])
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        stays = certificates.require_by_serial(session, tenant_id=alpha.tenant_id, serial=other.serial.hex())
        assert stays.status == "valid"


def test_renewals_are_tracked_after_a_superseded_revocation(app_engine, alpha):
    first = enrol(app_engine, alpha, make_secret(app_engine, alpha))
    renew(app_engine, alpha, first.certificate, lambda: None)
    revoke_one(app_engine, alpha, first.serial, "superseded")
    revoke_one(app_engine, alpha, first.serial, "keyCompromise")
    assert statuses(app_engine, alpha) == ["revoked", "revoked"]


def test_pending_renewal_is_revoked_with_its_certificate(app_engine, alpha, start_until_locked):
    first = enrol(app_engine, alpha, make_secret(app_engine, alpha))
    revoking: list[Future[Any]] = []
    with contextlib.suppress(Conflict):
        renew(
            app_engine,
            alpha,
            first.certificate,
            lambda: revoking.append(start_until_locked(revoke_one, app_engine, alpha, first.serial, "keyCompromise")),
        )
    revoking[0].result(10)
    assert_nothing_is_good(statuses(app_engine, alpha))
