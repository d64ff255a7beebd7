"""Revocation during a renewal or an enrolment: the new certificate does not remain valid."""

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
from nac.certificates.service import IssuedCertificate
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Conflict
from nac.models import Certificate
from tests.enrolment.conftest import enrol, make_secret, request
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR
from tests.polling import until

_WAITING = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


def revoke(app_engine: Engine, of: Certified, which: str) -> None:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        revoke_authority(session, actor=ACTOR, tenant_id=of.tenant_id, which=which, now=of.now)


def renew(
    app_engine: Engine, of: Certified, shown: x509.Certificate, between: Callable[[], None] = lambda: None
) -> IssuedCertificate:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        old = certificate_enrolment.require_renewable(session, tenant_id=of.tenant_id, shown=shown, now=of.now)
        between()
        return certificate_enrolment.renew(
            session, actor=ACTOR, old=old, request=request("laptop"), signing=SIGNING, now=of.now
        )


def statuses(app_engine: Engine, of: Certified) -> list[str]:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        return list(session.scalars(select(Certificate.status).where(Certificate.profile == "eap-client-device")))


# The renewal was signed before the revocation read it, or the revocation cancelled its intent.
NOTHING_IS_GOOD = (["revoked", "revoked"], ["abandoned", "revoked"])


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
            renew(app_engine, alpha, shown)


@pytest.mark.parametrize("which", ["issuing", "root"])
def test_pending_renewal_is_revoked_with_its_authority(app_engine, alpha, start_until_locked, which):
    shown = enrol(app_engine, alpha, make_secret(app_engine, alpha)).certificate
    revoking: list[Future[Any]] = []
    with suppress(Conflict):
        renew(app_engine, alpha, shown, lambda: revoking.append(start_until_locked(revoke, app_engine, alpha, which)))
    revoking[0].result(10)
    assert sorted(statuses(app_engine, alpha)) in NOTHING_IS_GOOD


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


def test_renewed_certificate_is_revoked_unless_superseded(app_engine, alpha):
    first = enrol(app_engine, alpha, make_secret(app_engine, alpha))
    second = renew(app_engine, alpha, first.certificate)
    renew(app_engine, alpha, second.certificate)
    other = enrol(app_engine, alpha, make_secret(app_engine, alpha))
    revoke_one(app_engine, alpha, first.serial, "superseded")
    assert sorted(statuses(app_engine, alpha)) == ["revoked", "valid", "valid", "valid"]
    # A worse reason of the same certificate revokes its renewals.
    revoke_one(app_engine, alpha, first.serial, "keyCompromise")
    assert sorted(statuses(app_engine, alpha)) == ["revoked", "revoked", "revoked", "valid"]
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        stays = certificates.require_by_serial(session, tenant_id=alpha.tenant_id, serial=other.serial.hex())
        assert stays.status == "valid"


def test_pending_renewal_is_revoked_with_its_certificate(app_engine, alpha, start_until_locked):
    first = enrol(app_engine, alpha, make_secret(app_engine, alpha))
    revoking: list[Future[Any]] = []
    with suppress(Conflict):
        revoked = (revoke_one, app_engine, alpha, first.serial, "keyCompromise")
        renew(app_engine, alpha, first.certificate, lambda: revoking.append(start_until_locked(*revoked)))
    revoking[0].result(10)
    assert sorted(statuses(app_engine, alpha)) in NOTHING_IS_GOOD
