"""The worker's job for external authorities. A tenant with a hanging server delays only its own fetches."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from nac.certificates import external_status
from nac.certificates.external_authorities import import_authorities
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.models import StatusSource
from tests.certificates.publisher import Publisher, publishing
from tests.certificates.uploads import authority, pem
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.pki.crls import make_crl
from worker.jobs import authorities

NOW = utc_now().replace(microsecond=0)
CORPORATE = authority("Corp CA", NOW)
Trusts = Callable[[str, str], Callable[[], int | None]]


@pytest.fixture(autouse=True)
def process(job_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIT_OUTBOUND_NETWORKS", "127.0.0.0/8")
    monkeypatch.setattr(authorities, "_TENANT_BUDGET_SECONDS", 2.0)


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Publisher]:
    with publishing(tmp_path, CORPORATE) as publisher:
        publisher.pages["/corp.crl"] = (200, make_crl(by=CORPORATE))
        yield publisher


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts every connection and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/corp.crl"


@pytest.fixture
def trusts(app_engine: Engine, platform: Platform) -> Trusts:
    """Create a tenant whose authority publishes a CRL at an address. Returns a function for the CRL's number."""

    def trusts(slug: str, url: str) -> Callable[[], int | None]:
        tenant_id = make_tenant(app_engine, platform, slug).id
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            files = [("ca", pem(CORPORATE))]
            import_authorities(session, actor=ACTOR, tenant_id=tenant_id, files=files, now=NOW, crl_url=url)

        def number() -> int | None:
            with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
                found = session.scalars(select(StatusSource.crl_number)).one()
            return None if found is None else int(found)

        return number

    return trusts


def test_hanging_server_delays_only_its_own_tenant(publisher: Publisher, silent: str, trusts: Trusts) -> None:
    numbers = [trusts("alpha", silent), trusts("bravo", publisher.url("/corp.crl")), trusts("charlie", silent)]
    began = time.monotonic()
    authorities.refresh_status()
    assert time.monotonic() - began < 30
    assert [number() is not None for number in numbers] == [False, True, False]


def test_long_run_is_not_started_twice(publisher: Publisher, worker_engine: Engine, trusts: Trusts) -> None:
    """Otherwise all worker processes would wait for the long run, and no CRLs would be published."""
    number = trusts("alpha", publisher.url("/corp.crl"))
    with session_scope(PlatformScope(), engine=worker_engine) as session:
        assert external_status.try_lock_refresh(session)
        authorities.refresh_status()
        assert (publisher.asked, number()) == ([], None)
    authorities.refresh_status()
    assert number() is not None
