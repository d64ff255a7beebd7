"""Several users and the worker change equal endpoints at once, and no change is lost."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from nac.inventory.endpoints import inbox
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.enrichment import enrich_batch
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import AlreadyExists
from nac.models import Endpoint
from nac.onboarding.imports.endpoint_file import InvalidFile, import_endpoints
from tests.factories.tenancy import ACTOR

MAC = "001ba9010203"
# Long enough for a second transaction to reach the rows of the first transaction.
MEANWHILE_SECONDS = 0.5


def status(session):
    return session.scalars(select(Endpoint.status).where(Endpoint.mac == MAC)).one()


@pytest.fixture
def meanwhile():
    with ThreadPoolExecutor(1) as other:

        def begin(*given, **more):
            started = other.submit(*given, **more)
            with pytest.raises(TimeoutError):
                started.result(MEANWHILE_SECONDS)
            return started

        yield begin


def test_file_import_during_discovery_succeeds(session, change, see, worker_engine, tenant_id, meanwhile):
    see(MAC)
    with session_scope(TenantScope(tenant_id), engine=worker_engine) as worker:
        assert enrich_batch(worker, tenant_id=tenant_id) == 1
        importing = meanwhile(change, import_endpoints, text=f"mac\n{MAC}\n")
    assert importing.result().changed == 1
    assert status(session) == "active"


@pytest.mark.parametrize(
    ("service", "given", "refusal"),
    [
        (import_endpoints, {"text": f"mac\n{MAC}\n"}, InvalidFile),
        (endpoints.create_endpoint, {"mac": MAC}, AlreadyExists),
    ],
)
def test_concurrent_block_is_not_overwritten_by_approval(
    session, app_engine, change, see, work, tenant_id, meanwhile, service, given, refusal
):
    see(MAC)
    work()
    with session_scope(TenantScope(tenant_id), engine=app_engine) as blocking:
        found = endpoints.EndpointCriteria(macs=(MAC,))
        inbox.classify_endpoints(
            blocking, actor=ACTOR, tenant_id=tenant_id, wanted=found, decision=inbox.InboxDecision("block")
        )
        approving = meanwhile(change, service, **given)
    with pytest.raises(refusal):
        approving.result()
    assert status(session) == "blocked"
