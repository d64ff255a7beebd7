"""New tenants with real parts: API, outbox, mail server, cell and radiusd. The next packet admits a device."""

import re
import time
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from api.main import create_app
from nac.accounts import api_tokens
from nac.core.access.grants import Owner
from nac.core.mail import outbox
from nac.core.mail.mailbox import Mailbox
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, PlatformScope, TenantScope, session_scope
from nac.kit.permissions import permissions_at
from nac.onboarding.self_tests import runner
from nac.onboarding.trials.service import LINK_LIFETIME
from nac.tenancy import msps
from nac.tenancy.tenants import service as tenants
from tests.agent.cell_process import LOOPBACK, RunningCell, server_of
from tests.api.app_server import serve_app, settings_of_public
from tests.factories.tenancy import ACTOR
from tests.mail.servers import mailbox_server
from tests.postgres import Database
from tests.trials.conftest import ANN, PASSWORD
from tests.two_cells.mab import MAC, ask

pytestmark = pytest.mark.early


def test_sign_up_gives_a_working_tenant_within_a_minute(
    cell: RunningCell, database: Database, app_engine: Engine, worker_engine: Engine, tmp_path: Path
):
    key = str(cell.folder / "master.key")
    settings = settings_of_public(database, tmp_path, ADMIT_TRIALS="yes", ADMIT_MASTER_KEY_FILE=key)
    with serve_app(create_app(settings)) as browser:
        began = time.monotonic()
        assert browser.post("/sign-up", data=ANN).status_code == 202
        link = _open_mail(cell, worker_engine, Mailbox(tmp_path / "mail"))
        made = browser.post(link, data={"password": PASSWORD, "again": PASSWORD, "name": "Ann"})
        assert made.status_code == 303, made.text
        slug = made.headers["location"].removeprefix("/start/")
        board = _self_test(browser, cell, app_engine, worker_engine, slug)
        _admit_a_device(browser, cell, app_engine, slug)
        assert time.monotonic() - began < 60
    assert all(check["ok"] for check in board["checks"]), board
    permitted = {check["sent"] for check in board["checks"] if check["got"] == "permit"}
    assert permitted == {"known device", "good certificate"}


def _open_mail(cell: RunningCell, engine: Engine, mailbox: Mailbox) -> str:
    with mailbox_server(mailbox) as server:
        outbox.send_due(server, unseal=cell.signing.sealer.open, engine=engine)
    (kept,) = mailbox.list_mails()
    found = re.search(r"https?://[^/]+(/sign-up/\S+)", kept.part("plain"))
    assert found, kept.part("plain")
    return found[1]


def _self_test(browser: httpx.Client, cell: RunningCell, app_engine: Engine, worker_engine: Engine, slug: str) -> dict:
    """The sign-up requested the self-test. Here the worker runs it."""
    _sign_in(browser, app_engine, slug)
    runner.run_waiting(runner.SelfTestPlatform(cell.signing, LOOPBACK, 0), engine=worker_engine)
    (found,) = browser.get(f"/v1/tenants/{slug}/self-tests").json()["items"]
    assert (found["state"], found["passed"]) == ("done", True), found
    shown = browser.get(f"/v1/tenants/{slug}/self-tests/{found['id']}")
    assert shown.json() == found
    return found


def _sign_in(browser: httpx.Client, engine: Engine, slug: str) -> None:
    with session_scope(PlatformScope(), engine=engine) as session:
        tenant_id = tenants.require_by_slug(session, slug=slug).id
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        _use_token(browser, session, Owner(tenant_id=tenant_id))


def _use_token(client: httpx.Client, session: Session, owner: Owner) -> None:
    held = permissions_at(owner.level)
    until = utc_now() + LINK_LIFETIME
    given = {"actor": ACTOR, "held": held, "owner": owner, "permissions": held}
    client.headers["Authorization"] = (
        f"Bearer {api_tokens.create_token(session, name='ann', expires_at=until, **given).text}"
    )


def _admit_a_device(browser: httpx.Client, cell: RunningCell, engine: Engine, slug: str) -> None:
    added = browser.post(f"/v1/tenants/{slug}/endpoints?wait=live", json={"mac": MAC, "name": "Printer"})
    assert (added.status_code, added.headers["admit-live"]) == (201, "true"), added.text
    with session_scope(PlatformScope(), engine=engine) as session:
        server = server_of(session, cell, tenants.require_by_slug(session, slug=slug).id)
    assert [ask(server, mac) for mac in (MAC, "00:00:5e:00:53:02")] == ["Access-Accept", "Access-Reject"]


def test_new_tenant_admits_an_approved_device_at_once(cell, database, app_engine, tmp_path):
    settings = settings_of_public(database, tmp_path, ADMIT_MASTER_KEY_FILE=str(cell.folder / "master.key"))
    with serve_app(create_app(settings)) as api:
        api.timeout = 30
        with session_scope(PlatformScope(), engine=app_engine) as session:
            owner = Owner(msps.create_msp(session, actor=ACTOR, slug="schools").id)
        with session_scope(MspScope(owner.msp_id), engine=app_engine) as session:
            _use_token(api, session, owner)
        tenant = api.post("/v1/tenants?wait=live", json={"msp": "schools", "slug": "hill-school"})
        assert (tenant.status_code, tenant.headers["admit-live"]) == (201, "true"), tenant.text
        _admit_a_device(api, cell, app_engine, "hill-school")
