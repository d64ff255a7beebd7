"""A tenant created in the API is live when the response arrives. The next packet admits a device."""

import time
from datetime import timedelta
from uuid import UUID

import pytest

from api.main import create_app
from cli.demo.tools import RadiusServer, run_radclient
from nac.accounts import api_tokens
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, PlatformScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.permissions import permissions_at
from nac.tenancy import msps
from nac.tenancy.cells import service as cells
from tests.agent.cell_process import LOOPBACK
from tests.api.app_server import serve_app, settings_of_public
from tests.factories.tenancy import ACTOR

pytestmark = pytest.mark.early

MAC = "00:00:5e:00:53:01"


def test_new_tenant_admits_an_approved_device_at_once(cell, database, app_engine, tmp_path):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        owner = Owner(msps.create_msp(session, actor=ACTOR, slug="schools").id)
    with session_scope(MspScope(owner.msp_id), engine=app_engine) as session:
        held = permissions_at(owner.level)
        until = utc_now() + timedelta(hours=1)
        made = api_tokens.create_token(
            session, actor=ACTOR, held=held, owner=owner, name="test", permissions=held, expires_at=until
        )
    key = str(cell.folder / "master.key")
    settings = settings_of_public(database, tmp_path, ADMIT_MASTER_KEY_FILE=key)
    with serve_app(create_app(settings)) as api:
        api.timeout = 30
        api.headers["Authorization"] = f"Bearer {made.text}"
        began = time.monotonic()
        tenant = api.post("/v1/tenants?wait=live", json={"msp": "schools", "slug": "hill-school"})
        took = time.monotonic() - began
        assert tenant.status_code == 201, tenant.text
        assert tenant.headers["admit-live"] == "true", f"not after {took:.1f} s"
        added = api.post("/v1/tenants/hill-school/endpoints?wait=live", json={"mac": MAC})
        assert added.headers["admit-live"] == "true"
    with session_scope(PlatformScope(), engine=app_engine) as session:
        slot = cells.require_slot(session, tenant_id=TenantId(UUID(tenant.json()["id"])))
        secret = cell.signing.sealer.open(slot.secret_sealed, f"slot:{slot.id}").decode()
    server = RadiusServer(LOOPBACK, slot.auth_port, slot.acct_port, secret)
    verdicts = {}
    for mac in (MAC, "00:00:5e:00:53:02"):
        asked = (("User-Name", mac), ("User-Password", mac), ("Calling-Station-Id", mac), ("NAS-Identifier", "sw"))
        verdicts[mac] = run_radclient(server, "auth", asked)
    assert [answer and answer.code for answer in verdicts.values()] == ["Access-Accept", "Access-Reject"]
