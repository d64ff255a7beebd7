"""The API with two MSPs. The client has all permissions in one of the MSPs."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from sqlalchemy import Engine

from api.connections import HttpWithFiles
from api.main import create_app
from nac.accounts import api_tokens
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.permissions import permissions_at
from nac.onboarding.imports import jobs as imports
from nac.sessions import log_search
from tests.api.app_server import serve_app, settings_of_public
from tests.factories.certificates import SEALER, Certified, certify
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.job_runs import run_next
from tests.postgres import Database
from tests.row_snapshots import SnapshotStore, snapshotted
from worker.handlers import JOB_HANDLERS

MakeToken = Callable[..., str]
# Headers of a token with only these permissions.
As = Callable[..., dict[str, str]]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def request_pem(common_name: str = "laptop-1") -> str:
    """Return a certificate signing request with a new key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(name)
    return request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.fixture
@snapshotted
def tenant_id(app_engine: Engine, platform: Platform) -> TenantId:
    return TenantId(make_tenant(app_engine, platform, "alpha").id)


@pytest.fixture
def make_token(app_engine: Engine) -> MakeToken:
    """Create a token of this owner with these permissions, or with all permissions of such an owner."""

    def make(owner: Owner, *permissions: str) -> str:
        scope = PlatformScope() if owner.msp_id is None else MspScope(owner.msp_id)
        scope = scope if owner.tenant_id is None else TenantScope(owner.tenant_id)
        held = permissions_at(owner.level)
        with session_scope(scope, engine=app_engine) as session:
            return api_tokens.create_token(
                session,
                actor=ACTOR,
                held=held,
                owner=owner,
                name="test",
                permissions=permissions or held,
                expires_at=utc_now() + timedelta(days=1),
            ).text

    return make


@pytest.fixture
def msp_token(standing: SnapshotStore, make_token: MakeToken, platform: Platform) -> str:
    return standing(make_token, Owner(platform.msp_id))


@pytest.fixture
def operator(make_token: MakeToken) -> dict[str, str]:
    """Headers of a platform operator."""
    return bearer(make_token(Owner()))


@pytest.fixture
def as_msp(make_token: MakeToken, platform: Platform) -> As:
    return lambda *held: bearer(make_token(Owner(platform.msp_id), *held))


@pytest.fixture
def as_tenant(make_token: MakeToken, tenant_id: TenantId) -> As:
    return lambda *held: bearer(make_token(Owner(tenant_id=tenant_id), *held))


@pytest.fixture
def work(worker_engine: Engine, app_engine: Engine) -> Callable[[], bool]:
    """Run the jobs that the worker would run within a second. Returns whether there was a job."""
    handlers = {**JOB_HANDLERS, **imports.build_handlers(lambda: SEALER.seal)}

    def work() -> bool:
        runs = 0
        while run_next(handlers, unseal=SEALER.open, app_engine=app_engine, engine=worker_engine):
            runs += 1
        return bool(runs)

    return work


@pytest.fixture
def outbound_networks() -> str:
    """Networks that the platform allows in addition to the defaults."""
    return ""


@pytest.fixture
def api(
    database: Database,
    standing: SnapshotStore,
    tmp_path: Path,
    msp_token: str,
    tenant_id: TenantId,
    platform: Platform,
    cell_engine: Engine,
    outbound_networks: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[httpx.Client]:
    """A client that acts as the administrator of the MSP."""
    # On a busy machine, searches would end early at the default time limit.
    monkeypatch.setattr(log_search, "BUDGET_SECONDS", 20.0)
    standing(give_dictionary, cell_engine, platform.cell_id)
    own = {"ADMIT_EXPORT_DIR": str(tmp_path / "exports"), "ADMIT_OUTBOUND_NETWORKS": outbound_networks}
    with serve_app(create_app(settings_of_public(database, tmp_path, **own)), http=HttpWithFiles) as client:
        client.headers.update(bearer(msp_token))
        yield client


@pytest.fixture
@snapshotted
def alpha(app_engine: Engine, tenant_id: TenantId) -> Certified:
    """A tenant with authorities."""
    return certify(app_engine, tenant_id)
