"""The worker's jobs for CRLs, OCSP signers, interrupted signatures and SCEP transactions, on a real database."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine, select, update

from nac.certificates import repository as certificates
from nac.certificates.authorities import create_tenant_authorities
from nac.certificates.intents import ABANDON_AFTER
from nac.certificates.issuance import SERVER_PROFILE
from nac.certificates.scep.service import RETENTION, prune_transactions
from nac.certificates.service import revoke_certificate
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, make_engine, session_scope
from nac.models import (
    AuthorityIntent,
    Certificate,
    CertificateAuthority,
    OcspSignerRow,
    RevocationList,
    RevocationWork,
    ScepTransaction,
)
from tests.commit_kills import AFTER, killed_at_commit
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.postgres import Database
from worker.jobs.certificates import publish, settle

pytestmark = pytest.mark.usefixtures("job_process")


def _lists(engine: Engine, tenant: Certified) -> dict[str, tuple[int, bool]]:
    """For each kind of authority: the CRL number and whether a CRL exists."""
    kinds = {row.id: row.kind for row in (tenant.authorities.root, tenant.authorities.issuing)}
    with session_scope(TenantScope(tenant.tenant_id), engine=engine) as session:
        rows = session.scalars(select(RevocationList)).all()
        return {kinds[row.authority_id]: (row.number, row.crl_der is not None) for row in rows}


def test_job_creates_missing_crls_and_signers_only_once(app_engine: Engine, alpha: Certified, bravo: Certified) -> None:
    for _ in range(2):
        publish()
        for tenant in (alpha, bravo):
            assert _lists(app_engine, tenant) == {"root": (1, True), "issuing": (1, True)}
            with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
                assert len(session.scalars(select(OcspSignerRow)).all()) == 2


def test_revocation_is_pending_until_published(app_engine: Engine, alpha: Certified) -> None:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        serial = alpha.issue(session).serial.hex()
        revoke_certificate(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=serial, now=alpha.now)
        assert len(session.scalars(select(RevocationWork)).all()) == 1
    publish()
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        assert session.scalars(select(RevocationWork)).all() == []


def test_unfinished_intent_is_abandoned_and_logged(
    app_engine: Engine, owner_engine: Engine, alpha: Certified, bravo: Certified, caplog: pytest.LogCaptureFixture
) -> None:
    for tenant in (alpha, bravo):
        with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
            tenant.reserve(session)
    settle()
    assert caplog.messages == []
    long_ago = utc_now() - ABANDON_AFTER - timedelta(minutes=1)
    with owner_engine.begin() as connection:
        connection.execute(update(Certificate).where(Certificate.status == "intended").values(created_at=long_ago))
    settle()
    assert len(caplog.messages) == 2
    for tenant in (alpha, bravo):
        with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
            statuses = session.scalars(select(Certificate.status).order_by(Certificate.status)).all()
            # The certificate is on the next CRL.
            assert len(session.scalars(select(RevocationWork)).all()) == 1
        assert statuses == ["abandoned", "valid"]


def test_interrupted_tenant_gets_its_authorities_in_a_minute(
    app_engine: Engine, owner_engine: Engine, database: Database, platform: Platform
) -> None:
    tenant_id = make_tenant(app_engine, platform, "late").id

    def create() -> None:
        with session_scope(TenantScope(tenant_id), engine=make_engine(database.app_url)) as session:
            given = {"tenant_id": tenant_id, "signing": SIGNING, "now": utc_now()}
            create_tenant_authorities(session, actor=ACTOR, **given)

    assert killed_at_commit(create, at=1, when=AFTER)
    for _ in range(2):
        settle()
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            made = session.scalars(select(CertificateAuthority.kind).order_by(CertificateAuthority.kind)).all()
        with owner_engine.begin() as connection:
            long_ago = utc_now() - ABANDON_AFTER - timedelta(minutes=1)
            connection.execute(update(AuthorityIntent).values(created_at=long_ago))
    assert made == ["issuing", "root"]
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        valid = select(Certificate.profile).where(Certificate.status == "valid")
        assert session.scalars(valid).all() == [SERVER_PROFILE]


def test_failing_authority_delays_no_other_and_is_retried(
    app_engine: Engine, alpha: Certified, bravo: Certified, caplog: pytest.LogCaptureFixture
) -> None:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        session.execute(
            update(CertificateAuthority).where(CertificateAuthority.kind == "issuing").values(key_sealed=b"x")
        )
    publish()
    assert _lists(app_engine, alpha) == {"root": (1, True), "issuing": (0, False)}
    assert _lists(app_engine, bravo) == {"root": (1, True), "issuing": (1, True)}
    assert f"authority {alpha.authorities.issuing.id} of tenant" in caplog.text
    caplog.clear()
    publish()
    assert caplog.text == ""


def test_old_scep_transactions_are_deleted_and_certificates_kept(
    app_engine: Engine, alpha: Certified, bravo: Certified
) -> None:
    ages = {"old": RETENTION + timedelta(hours=1), "young": RETENTION - timedelta(hours=1)}
    for tenant in (alpha, bravo):
        for name, age in ages.items():
            with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
                row = certificates.get_by_serial(session, tenant.tenant_id, tenant.issue(session).serial)
                given = {"tenant_id": tenant.tenant_id, "certificate_id": row.id, "created_at": utc_now() - age}
                session.add(ScepTransaction(transaction_id=name, **given))
    for _ in range(2):
        prune_transactions()
    for tenant in (alpha, bravo):
        with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
            assert session.scalars(select(ScepTransaction.transaction_id)).all() == ["young"]
            # The two certificates and the server certificate.
            assert len(session.scalars(select(Certificate.id)).all()) == 3
