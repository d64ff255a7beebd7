"""Stored SCEP transactions are deleted by age."""

from datetime import timedelta

from sqlalchemy import Engine, select

from nac.certificates import repository as certificates
from nac.certificates.scep.service import RETENTION, prune_transactions
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope, set_process_engine
from nac.models import Certificate, ScepTransaction
from tests.factories.certificates import Certified


def _transact(engine: Engine, tenant: Certified, age: timedelta) -> None:
    with session_scope(TenantScope(tenant.tenant_id), engine=engine) as session:
        row = certificates.get_by_serial(session, tenant.tenant_id, tenant.issue(session).serial)
        assert row is not None
        session.add(
            ScepTransaction(
                tenant_id=tenant.tenant_id,
                transaction_id=str(age),
                certificate_id=row.id,
                created_at=utc_now() - age,
            )
        )


def test_old_transactions_are_deleted_and_certificates_kept(
    app_engine: Engine, worker_engine: Engine, alpha: Certified, bravo: Certified
) -> None:
    old, young = RETENTION + timedelta(hours=1), RETENTION - timedelta(hours=1)
    for tenant in (alpha, bravo):
        for age in (old, young):
            _transact(app_engine, tenant, age)
    set_process_engine(worker_engine)
    try:
        for _ in range(2):
            prune_transactions()
    finally:
        set_process_engine(None)
    for tenant in (alpha, bravo):
        with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
            assert session.scalars(select(ScepTransaction.transaction_id)).all() == [str(young)]
            # The two certificates and the server certificate.
            assert len(session.scalars(select(Certificate.id)).all()) == 3
