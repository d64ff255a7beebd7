"""Secret rotation: started, observed, revealed, finished and cancelled.

The worker ends an expired rotation.
"""

from datetime import datetime, timedelta

import httpx
import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import Conflict
from nac.models import SecretRotation, SecretSighting, Tenant
from nac.tenancy.cells import service as cells
from nac.tenancy.secret_rotations import service as rotations
from nac.tenancy.tenants import service as tenants
from tests.api.v1.conftest import As
from tests.api.v1.responses import created, refusal
from tests.factories.certificates import SIGNING

ROTATION = "/v1/tenants/alpha/radius-secret/rotation"
REVEAL = "/v1/tenants/alpha/radius-secret/reveal"
NASES = "/v1/tenants/alpha/nases"
NEW, OWN = "the-secret-that-is-to-come", "a-secret-of-its-own-1"


def begin(api: httpx.Client, **given: object) -> dict[str, object]:
    made = created(api.post(ROTATION, json=given))
    assert NEW not in str(made)
    return made


def secret(api: httpx.Client, **given: object) -> str:
    answer = api.post(REVEAL, json=given)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["secret"])


@pytest.fixture(autouse=True)
def _sealed(owner_engine, api, tenant_id) -> None:
    """The secret of the slot, sealed as for a cell."""
    with Session(owner_engine) as session, session.begin():
        slot = cells.require_slot(session, tenant_id=tenant_id)
        slot.secret_sealed = SIGNING.sealer.seal(b"the-secret-of-before-01", cells.slot_secret_context(slot))


@pytest.fixture
def saw(owner_engine, tenant_id):
    """Function that records a request of a NAS."""

    def see(api: httpx.Client, key: str, *, source: str = "192.0.2.1", **times: object) -> None:
        with Session(owner_engine) as session, session.begin():
            rotation = session.query(SecretRotation.id).order_by(SecretRotation.created_at.desc()).first()
            assert rotation is not None
            given = {"rotation_id": rotation[0], "tenant_id": tenant_id, "nas_key": key, "source": source}
            session.execute(insert(SecretSighting).values(given | times))

    return see


def test_rotation_is_started_observed_and_finished(api: httpx.Client, saw) -> None:
    before = secret(api)
    assert api.get(ROTATION).status_code == 404
    assert api.post(REVEAL, json={"next": True}).status_code == 422
    begun = begin(api, secret=NEW, hours=24)
    assert (begun["state"], begun["nas"]) == ("preparing", None)
    plan = str(begun["plan"])
    assert all(name in plan for name in ("revealRadiusSecret", "listSecretRotationNases", "finishSecretRotation"))
    assert not any(word in plan for word in ("./admit", "POST"))
    assert api.post(ROTATION, json={}).status_code == 409
    assert (secret(api), secret(api, next=True)) == (before, NEW)
    snippet = api.post(REVEAL, json={"next": True, "snippet": "cisco-iosxe-ibns2"}).json()["text"]
    assert NEW in snippet
    assert before not in snippet
    now = utc_now()
    made = api.post(NASES, json={"name": "North", "address": "192.0.2.7"}).json()
    saw(api, "sw-1|192.0.2.1", old_at=now)
    saw(api, "sw-2|192.0.2.1", old_at=now - timedelta(hours=1), new_at=now, new_since=now)
    assert api.get(ROTATION).json()["nases"] == {"unseen": 1, "old": 1, "new": 1, "back": 0}
    listed = [(each["key"], each["state"], each["way"]) for each in api.get(f"{ROTATION}/nases").json()["items"]]
    switched = ("sw-2|192.0.2.1", "new", "together")
    assert {*listed} == {("sw-1|192.0.2.1", "old", "together"), switched, (made["id"], "unseen", "alone")}
    assert [each["key"] for each in api.get(f"{ROTATION}/nases?state=new").json()["items"]] == [switched[0]]
    refused = api.post(f"{ROTATION}/finish", json={})
    assert refusal(refused) == (409, "nases-left-behind")
    assert "sw-1" in refused.json()["detail"]
    assert api.post(f"{ROTATION}/cancel", json={}).status_code == 409
    finished = api.post(f"{ROTATION}/finish", json={"leave_behind": True})
    assert finished.json()["state"] == "finished"
    assert secret(api) == NEW
    assert api.post(f"{ROTATION}/finish", json={}).status_code == 404
    actions = [each["action"] for each in api.get("/v1/tenants/alpha/audit?limit=50").json()["items"]]
    assert {"secret.begin-rotation", "secret.finish-rotation", "secret.reveal"} <= set(actions)
    assert NEW not in api.get("/v1/tenants/alpha/audit?limit=50").text


def test_cancelled_rotation_keeps_the_old_secret(api: httpx.Client) -> None:
    before = secret(api)
    begin(api)
    made = secret(api, next=True)
    assert made != before
    assert api.post(f"{ROTATION}/cancel", json={}).json()["state"] == "cancelled"
    assert secret(api) == before
    begin(api)
    assert secret(api, next=True) not in (made, before)


def test_nas_secret_rotates_separately(api: httpx.Client) -> None:
    api.post(NASES, json={"name": "North", "address": "192.0.2.7", "secret": OWN})
    api.post(NASES, json={"name": "South", "address": "192.0.2.8"})
    assert api.post(ROTATION, json={"nas": "South"}).status_code == 409
    begin(api, nas="North", secret=NEW)
    assert begin(api)["nas"] is None
    assert (secret(api, nas="North"), secret(api, nas="North", next=True)) == (OWN, NEW)
    assert api.get(f"{ROTATION}?nas=North").json()["nases"]["unseen"] == 1
    assert api.post(f"{ROTATION}/finish", json={"nas": "North"}).status_code == 200
    assert secret(api, nas="North") == NEW


def test_rotation_needs_its_permission(api: httpx.Client, as_tenant: As) -> None:
    """The permission to read NASes and to reveal secrets is not sufficient."""
    headers = as_tenant("nas.read", "secret.reveal")
    assert api.post(ROTATION, json={}, headers=headers).status_code == 403
    begin(api)
    assert api.get(ROTATION, headers=headers).status_code == 200
    assert api.post(f"{ROTATION}/cancel", json={}, headers=headers).status_code == 403


@pytest.mark.parametrize(("at_end", "state"), [("finish", "finished"), ("wait", "overdue")])
def test_window_expires_or_waits(api: httpx.Client, owner_engine, worker_engine, at_end: str, state: str) -> None:
    before = secret(api)
    begin(api, secret=NEW, at_end=at_end)
    for expected in ("preparing", state):
        rotations.finish_expired(SIGNING.sealer, engine=worker_engine)
        assert api.get(ROTATION).json()["state"] == expected
        end_window(owner_engine)
    assert secret(api) == (NEW if at_end == "finish" else before)


def test_suspended_tenant_still_rotates(api: httpx.Client, owner_engine, worker_engine) -> None:
    """The cell still answers the NASes and identifies their secrets, although it rejects all requests."""
    with owner_engine.begin() as connection:
        connection.execute(update(Tenant).where(Tenant.slug == "alpha").values(status="suspended"))
    begin(api, secret=NEW)
    end_window(owner_engine)
    rotations.finish_expired(SIGNING.sealer, engine=worker_engine)
    assert api.get(ROTATION).json()["state"] == "finished"
    assert secret(api) == NEW


def test_rotation_of_a_deleted_tenant_does_not_end(
    api: httpx.Client, owner_engine, app_engine, worker_engine, tenant_id
) -> None:
    """No user can update the NASes of a deleted tenant. After a restore, the rotation continues for a day."""

    def change(function) -> None:
        with session_scope(PlatformScope(), engine=app_engine) as session:
            function(session, actor="t", tenant_id=tenant_id)

    before = secret(api)
    begin(api, secret=NEW)
    change(tenants.delete_tenant)
    end_window(owner_engine)
    rotations.finish_expired(SIGNING.sealer, engine=worker_engine)
    with Session(owner_engine) as session, session.begin():
        rotation = session.scalars(select(SecretRotation)).one()
        # Each run of the worker continues with other rotations.
        assert (rotation.state, rotation.ends_at > utc_now()) == ("running", True)
    end_window(owner_engine)
    change(tenants.resume_tenant)
    rotations.finish_expired(SIGNING.sealer, engine=worker_engine)
    found = api.get(ROTATION).json()
    assert found["state"] == "open"
    assert datetime.fromisoformat(found["ends_at"]) > utc_now() + timedelta(hours=23)
    assert secret(api) == before
    assert api.post(f"{ROTATION}/cancel", json={}).status_code == 200
    change(tenants.delete_tenant)
    with session_scope(PlatformScope(), engine=app_engine) as session, pytest.raises(Conflict, match="being deleted"):
        rotations.start_rotation(session, actor="t", tenant_id=tenant_id, sealer=SIGNING.sealer)


def end_window(owner_engine) -> None:
    past = utc_now() - timedelta(seconds=1)
    with Session(owner_engine) as session, session.begin():
        session.execute(update(SecretRotation).values(ends_at=past, opened_at=past))
