"""Configuration snippets and the RADIUS secret in the API."""

import httpx
import pytest
from sqlalchemy import Engine, select

from nac.core.access.grants import Owner
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import AuditEntry
from nac.onboarding.snippets.service import SECRET_PLACEHOLDER
from nac.tenancy import msps
from nac.tenancy.cells import service as cells
from tests.api.v1.conftest import MakeToken, api, make_token, msp_token, outbound_networks, tenant_id
from tests.factories.certificates import SEALER
from tests.factories.tenancy import ACTOR, Platform, make_cell

__all__ = ["api", "make_token", "msp_token", "outbound_networks", "tenant_id"]
ALPHA = "/v1/tenants/alpha"


@pytest.fixture
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    """A platform with a cell whose secrets the API can decrypt."""
    with session_scope(PlatformScope(), engine=app_engine) as session:
        msp_id = msps.create_msp(session, actor=ACTOR, slug="acme").id
    return Platform(msp_id, make_cell(cell_engine, seal_with=SEALER.seal))


def test_snippet_has_the_tenant_ports_and_no_secret(api: httpx.Client, tenant_id: TenantId, app_engine: Engine):
    listed = api.get(f"{ALPHA}/snippets").json()["items"]
    assert {"cisco-iosxe-ibns2", "aruba-cx", "unifi"} <= {each["id"] for each in listed}
    shown = api.get(f"{ALPHA}/snippets/cisco-iosxe-ibns2", params={"site": "main"}).json()
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        slot = cells.require_slot(session, tenant_id=tenant_id)
    assert f"auth-port {slot.auth_port} acct-port {slot.acct_port}" in shown["text"]
    assert SECRET_PLACEHOLDER in shown["text"]
    assert api.get(f"{ALPHA}/snippets/nothing").status_code == 404


def test_revealing_the_secret_needs_permission_and_is_audited(
    api: httpx.Client, tenant_id: TenantId, make_token: MakeToken, app_engine: Engine
):
    reader = {"Authorization": f"Bearer {make_token(Owner(tenant_id=tenant_id), 'nas.read')}"}
    assert api.post(f"{ALPHA}/radius-secret/reveal", headers=reader).status_code == 403
    assert not _audited(app_engine, tenant_id)
    shown = api.post(f"{ALPHA}/radius-secret/reveal", json={"snippet": "aruba-cx"}).json()
    assert len(shown["secret"]) == 32
    assert f"key plaintext {shown['secret']}" in shown["text"]
    (entry,) = _audited(app_engine, tenant_id)
    assert entry.after == {"of": "tenant"}
    assert shown["secret"] not in str(entry.__dict__)


def _audited(engine: Engine, tenant_id: TenantId) -> list[AuditEntry]:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        return list(session.scalars(select(AuditEntry).where(AuditEntry.action == "secret.reveal")))
