"""Tenants, MSPs and cells in the API."""

from threading import BoundedSemaphore

import httpx
import pytest
from sqlalchemy import Engine, text

from nac.core.access.grants import Owner
from nac.kit.errors import NotLiveYet
from nac.tenancy.cells import service as cells
from tests.factories.certificates import SEALER
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell

TENANT = "/v1/tenants/alpha"


@pytest.fixture
def operator(api: httpx.Client, make_token) -> dict[str, str]:
    return {"Authorization": f"Bearer {make_token(Owner())}"}


def test_new_msp_tenant_gets_a_working_policy(api: httpx.Client) -> None:
    made = api.post("/v1/tenants", json={"msp": "acme", "slug": "hill-school", "name": "Hill School"})
    assert made.status_code == 201, made.text
    assert made.headers["admit-live"] == "false"
    assert made.headers["admit-position"].isdigit()
    assert made.json()["listeners"]["auth_port"] > 0
    # The address of the platform, because the cell has no address.
    assert made.json()["listeners"]["address"] == "127.0.0.1"
    assert made.json() == api.get("/v1/tenants/hill-school").json()
    (site,) = api.get("/v1/tenants/hill-school/sites").json()["items"]
    assert site["policy"] == "standard"


def test_new_tenant_may_start_without_a_policy(api: httpx.Client) -> None:
    made = api.post("/v1/msps/acme/tenants", json={"slug": "hill-school", "policy": "none"})
    assert made.status_code == 201, made.text
    (site,) = api.get("/v1/tenants/hill-school/sites").json()["items"]
    assert site["policy"] is None


def test_tenant_is_placed_in_its_cell_unless_draining(
    api: httpx.Client, operator: dict[str, str], cell_engine: Engine
) -> None:
    give_dictionary(cell_engine, make_cell(cell_engine, name="cell-2", slots=1, first_port=20000))
    changed = api.patch("/v1/cells/cell-2", headers=operator, json={"labels": ["frankfurt"], "address": "r2.example"})
    assert changed.status_code == 200, changed.text
    made = api.post("/v1/tenants", json={"msp": "acme", "slug": "bravo", "place": "frankfurt"})
    assert made.json()["listeners"] == {"address": "r2.example", "auth_port": 20000, "acct_port": 20001}
    full = api.post("/v1/tenants", json={"msp": "acme", "slug": "charlie", "place": "frankfurt"})
    assert (full.status_code, full.json()["code"], full.json()["place"]) == (409, "no-free-slot", "cell")
    api.patch("/v1/cells/cell-1", headers=operator, json={"status": "draining"})
    none = api.post("/v1/tenants", json={"msp": "acme", "slug": "charlie"})
    assert (none.status_code, none.json()["code"]) == (409, "no-free-slot")
    assert api.get("/v1/tenants/charlie").status_code == 404


def test_move_names_the_addresses_of_both_cells(
    api: httpx.Client, operator: dict[str, str], cell_engine: Engine, owner_engine: Engine
) -> None:
    """Each address is the address set for the cell, or else the address of the platform."""
    for number, name in enumerate(("cell-2", "cell-3")):
        made = make_cell(cell_engine, name=name, slots=1, first_port=20000 + 100 * number, seal_with=SEALER.seal)
        give_dictionary(cell_engine, made)
        api.patch(f"/v1/cells/{name}", headers=operator, json={"labels": [name]})
    api.patch("/v1/cells/cell-3", headers=operator, json={"address": "r3.example"})
    assert api.post("/v1/tenants", json={"msp": "acme", "slug": "bravo", "place": "cell-2"}).status_code == 201
    prepared = api.post("/v1/cells/moves/bravo", headers=operator, json={"cell": "cell-3"})
    assert prepared.status_code == 201, prepared.text
    assert (prepared.json()["state"], prepared.json()["ready"]) == ("prepared", False)
    assert prepared.json()["before"] == {"address": "127.0.0.1", "auth_port": 20000, "acct_port": 20001}
    assert prepared.json()["after"] == {"address": "r3.example", "auth_port": 20100, "acct_port": 20101}
    early = api.post("/v1/cells/moves/bravo/switch", headers=operator)
    assert (early.status_code, early.json()["code"]) == (409, "not-ready-yet")
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE slots SET status = 'ready' WHERE status = 'reserved'"))
        connection.execute(text("UPDATE cells SET agent_seen_at = now() - interval '2 minutes' WHERE name = 'cell-2'"))
    silent = api.post("/v1/cells/moves/bravo/switch", headers=operator)
    assert (silent.status_code, silent.json()["code"]) == (409, "cell-silent")
    switched = api.post("/v1/cells/moves/bravo/switch?although_silent=true", headers=operator)
    assert switched.json()["state"] == "switched"
    own = api.get("/v1/tenants/bravo/move").json()
    assert (own["after"], "the first RADIUS server" in own["told"]) == (prepared.json()["after"], True)
    assert api.post("/v1/cells/moves/bravo/cancel", headers=operator).json()["state"] == "cancelled"


def test_cells_list_slots_ports_and_versions(api: httpx.Client, operator: dict[str, str]) -> None:
    (cell,) = api.get("/v1/cells", headers=operator).json()["items"]
    assert cell["slots"] == {"free": 3, "assigned": 1, "reserved": 0, "retired": 0}
    assert (cell["first_port"], cell["last_port"], cell["radiusd_version"]) == (18120, 18127, "3.2.7")
    assert (cell["seen"], cell["alarms"]) == (True, [])
    assert api.get("/v1/cells").status_code == 403
    unknown = api.patch("/v1/cells/cell-9", headers=operator, json={"status": "active"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "cell-not-found")
    wrong = api.patch("/v1/cells/cell-1", headers=operator, json={"address": "http://x/"})
    assert (wrong.status_code, wrong.json()["place"]) == (422, "address")


def test_tenant_settings_change_together_or_not_at_all(api: httpx.Client) -> None:
    before = api.get(TENANT)
    change = {
        "name": "Alpha Ltd",
        "methods": ["mab", "eap-tls"],
        "replay_days": 7,
        "renewal_keeps_key": True,
        "status_failure": "hard",
        "silent_days": 3,
        "failure_limit": 50,
    }
    after = api.patch(TENANT, json=change, headers={"If-Match": before.headers["etag"]})
    assert after.status_code == 200, after.text
    settings = after.json()["settings"]
    assert {name: settings[name] for name in change if name != "name"} == {
        name: value for name, value in change.items() if name != "name"
    }
    assert after.json()["name"] == "Alpha Ltd"
    again = api.patch(TENANT, json={"name": "Beta"}, headers={"If-Match": before.headers["etag"]})
    assert again.status_code == 412
    refused = api.patch(TENANT, json={"name": "Beta", "silent_days": 61})
    assert (refused.status_code, refused.json()["place"]) == (422, "silent_days")
    assert api.get(TENANT).json() == after.json()
    assert api.patch(TENANT, json={"methods": ["telepathy"]}).status_code == 422


def test_tenant_realms_are_replaced_as_a_whole(api: httpx.Client) -> None:
    def change(*realms: str) -> httpx.Response:
        return api.patch(TENANT, json={"realms": list(realms)})

    assert api.get(TENANT).json()["settings"]["realms"] == []
    assert change("CORP", "corp.example", "corp").json()["settings"]["realms"] == ["corp", "corp.example"]
    for wrong in ("", "a b", "CORP\\", "@corp.example", "a,b", "x" * 254, "bell\a"):
        refused = change("corp", wrong)
        assert refused.status_code == 422, wrong
    assert change(*(f"r{number}" for number in range(51))).status_code == 422
    assert api.patch(TENANT, json={"name": "Alpha"}).json()["settings"]["realms"] == ["corp", "corp.example"]
    assert change().json()["settings"]["realms"] == []


def test_tenants_are_searched_by_part_of_the_name(api: httpx.Client) -> None:
    for number in range(3):
        body = {"slug": f"school-{number}", "name": f"100% School_{number}", "policy": "none"}
        assert api.post("/v1/msps/acme/tenants", json=body).status_code == 201

    def search_slugs(**query: str) -> list[str]:
        return [each["slug"] for each in api.get("/v1/msps/acme/tenants", params=query).json()["items"]]

    assert search_slugs(text="SCHOOL") == ["school-0", "school-1", "school-2"]
    assert search_slugs(text="% school_1") == ["school-1"]
    assert search_slugs(text="%%") == []
    api.post("/v1/tenants/school-1/suspend")
    assert search_slugs(text="school", status="suspended") == ["school-1"]


def test_deleted_tenant_can_be_restored_until_purged(api: httpx.Client) -> None:
    api.patch("/v1/msps/acme", json={"deletion_days": 3})
    deleted = api.delete("/v1/msps/acme/tenants/alpha").json()
    assert (deleted["status"], deleted["purge_at"] > deleted["updated_at"]) == ("deleting", True)
    refused = api.post(f"{TENANT}/resume")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    restored = api.post("/v1/msps/acme/tenants/alpha/restore").json()
    assert (restored["status"], restored["purge_at"]) == ("active", None)
    assert api.delete("/v1/msps/acme/tenants/nothing").json()["code"] == "tenant-not-found"


def test_pending_deletion_period_needs_a_matching_etag(api: httpx.Client) -> None:
    made = api.delete("/v1/msps/acme/tenants/alpha", params={"days": 9}).json()
    assert api.delete("/v1/msps/acme/tenants/alpha").json()["purge_at"] == made["purge_at"]
    refused = api.delete("/v1/msps/acme/tenants/alpha", params={"days": 1})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "Restore" in refused.text


def test_msps_are_created_and_updated(api: httpx.Client, operator: dict[str, str]) -> None:
    made = api.post("/v1/msps", headers=operator, json={"slug": "bolt"})
    assert made.status_code == 201, made.text
    assert [each["slug"] for each in api.get("/v1/msps", headers=operator).json()["items"]] == ["acme", "bolt"]
    assert [each["slug"] for each in api.get("/v1/msps").json()["items"]] == ["acme"]
    assert api.get("/v1/msps/bolt").status_code == 404
    shown = api.get("/v1/msps/acme")
    assert shown.json()["deletion_days"] == 30
    assert api.patch("/v1/msps/acme", json={"name": "Acme!"}, headers={"If-Match": '"x"'}).status_code == 412
    changed = api.patch("/v1/msps/acme", json={"name": "Acme!"}, headers={"If-Match": shown.headers["etag"]})
    assert changed.json()["name"] == "Acme!"
    elsewhere = api.post("/v1/tenants", headers=operator, json={"msp": "nobody", "slug": "x"})
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (422, "msp-not-found")


def test_tenant_cannot_resume_a_suspension_from_above(
    api: httpx.Client, operator: dict[str, str], make_token, tenant_id
) -> None:
    def own(verb: str) -> tuple[int, str]:
        answer = api.post(f"{TENANT}/{verb}", headers=mine)
        return answer.status_code, answer.json().get("code") or answer.json()["status"]

    mine = {"Authorization": f"Bearer {make_token(Owner(tenant_id=tenant_id))}"}
    assert own("suspend") == (200, "suspended")
    assert own("resume") == (200, "active")
    assert own("suspend") == (200, "suspended")
    # The MSP can suspend a tenant that the tenant's own users have suspended.
    assert api.post(f"{TENANT}/suspend").status_code == 200
    assert own("resume") == (403, "suspended-from-above")
    assert api.post(f"{TENANT}/suspend", headers=operator).status_code == 200
    assert api.post(f"{TENANT}/resume").json()["code"] == "suspended-from-above"
    # A restore after a deletion does not resume the tenant either.
    deleted = "/v1/msps/acme/tenants/alpha"
    assert api.delete(deleted).json()["status"] == "deleting"
    assert api.post(f"{deleted}/restore").json()["status"] == "suspended"
    assert api.post(f"{TENANT}/resume").json()["code"] == "suspended-from-above"
    assert api.post(f"{TENANT}/resume", headers=operator).json()["status"] == "active"
    assert own("suspend") == (200, "suspended")
    assert own("resume") == (200, "active")


def test_revealing_tenant_secrets_needs_permission(api: httpx.Client, make_token, platform, tenant_id) -> None:
    token = make_token(Owner(platform.msp_id), "tenant.delete", "job.read")
    body = {"passphrase": "twelve or more"}
    asked = api.post("/v1/msps/acme/tenants/alpha/export", json=body, headers={"Authorization": f"Bearer {token}"})
    assert (asked.status_code, asked.json()["code"]) == (403, "permission-missing")
    assert api.post("/v1/msps/acme/tenants/alpha/export", json=body).status_code == 202


def test_waiters_beyond_the_limit_are_rejected_at_once(
    api: httpx.Client, operator: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = []

    def wait(*_: object, timeout_seconds: float, **__: object) -> None:
        patience.append(timeout_seconds)
        if len(patience) == 1:
            api.patch(f"{TENANT}?wait=live", json={"name": "Two"}, headers=operator)
        raise NotLiveYet

    monkeypatch.setattr("api.change._waiter_permits", BoundedSemaphore(1))
    monkeypatch.setattr(cells, "wait_until_live", wait)
    for name in ("One", "Three"):
        assert api.patch(f"{TENANT}?wait=live", json={"name": name}).headers["admit-live"] == "false"
    assert patience == [5.0, 0.0, 5.0]
