"""Tenants, MSPs and cells."""

from threading import BoundedSemaphore

import httpx
import pytest
from sqlalchemy import Engine, text

from nac.kit.errors import NotLiveYet
from nac.tenancy.cells import service as cells
from tests.api.v1.conftest import As
from tests.api.v1.responses import created, refusal
from tests.factories.certificates import SEALER
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell

TENANT = "/v1/tenants/alpha"


def test_new_tenant_has_a_working_policy_unless_unwanted(api: httpx.Client) -> None:
    answer = api.post("/v1/tenants", json={"msp": "acme", "slug": "hill-school", "name": "Hill School"})
    made = created(answer)
    assert (answer.headers["admit-live"], answer.headers["admit-position"].isdigit()) == ("false", True)
    # The address of the platform, because the cell has no address.
    assert made["listeners"]["address"] == "127.0.0.1"
    assert made["listeners"]["acct_port"] == made["listeners"]["auth_port"] + 1
    for key in ("hill-school", made["id"]):
        assert api.get(f"/v1/tenants/{key}").json() == made
    created(api.post("/v1/msps/acme/tenants", json={"slug": "vale-school", "policy": "none"}))
    for slug, policy in (("hill-school", "standard"), ("vale-school", None)):
        assert [each["policy"] for each in api.get(f"/v1/tenants/{slug}/sites").json()["items"]] == [policy]


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
    assert refusal(none) == (409, "no-free-slot")
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
    prepared = created(api.post("/v1/cells/moves/bravo", headers=operator, json={"cell": "cell-3"}))
    assert (prepared["state"], prepared["ready"]) == ("prepared", False)
    assert prepared["before"] == {"address": "127.0.0.1", "auth_port": 20000, "acct_port": 20001}
    assert prepared["after"] == {"address": "r3.example", "auth_port": 20100, "acct_port": 20101}
    early = api.post("/v1/cells/moves/bravo/switch", headers=operator)
    assert refusal(early) == (409, "not-ready-yet")
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE slots SET status = 'ready' WHERE status = 'reserved'"))
        connection.execute(text("UPDATE cells SET agent_seen_at = now() - interval '2 minutes' WHERE name = 'cell-2'"))
    silent = api.post("/v1/cells/moves/bravo/switch", headers=operator)
    assert refusal(silent) == (409, "cell-silent")
    switched = api.post("/v1/cells/moves/bravo/switch?although_silent=true", headers=operator)
    assert switched.json()["state"] == "switched"
    own = api.get("/v1/tenants/bravo/move").json()
    assert (own["after"], "the first RADIUS server" in own["nas_changes"]) == (prepared["after"], True)
    assert api.post("/v1/cells/moves/bravo/cancel", headers=operator).json()["state"] == "cancelled"


def test_cells_list_slots_ports_and_versions(api: httpx.Client, operator: dict[str, str]) -> None:
    (cell,) = api.get("/v1/cells", headers=operator).json()["items"]
    assert cell["slots"] == {"free": 3, "assigned": 1, "reserved": 0, "retired": 0}
    assert (cell["first_port"], cell["last_port"], cell["radiusd_version"]) == (18120, 18127, "3.2.7")
    assert (cell["seen"], cell["alarms"]) == (True, [])
    assert api.get("/v1/cells").status_code == 403
    unknown = api.patch("/v1/cells/cell-9", headers=operator, json={"status": "active"})
    assert refusal(unknown) == (404, "cell-not-found")
    wrong = api.patch("/v1/cells/cell-1", headers=operator, json={"address": "http://x/"})
    assert (wrong.status_code, wrong.json()["place"]) == (422, "address")


def test_tenant_settings_change_together(api: httpx.Client) -> None:
    settings = {
        "methods": ["mab", "eap-tls"],
        "replay_days": 7,
        "renewal_keeps_key": True,
        "status_failure": "hard",
        "silent_days": 3,
        "failure_limit": 50,
    }
    after = api.patch(TENANT, json={"name": "Alpha Ltd", **settings}).json()
    assert after["name"] == "Alpha Ltd"
    assert after["settings"].items() >= settings.items()
    assert api.get(TENANT).json() == after


def test_tenant_realms_are_replaced_as_a_whole(api: httpx.Client) -> None:
    for change, realms in (
        ({"name": "Alpha"}, []),
        ({"realms": ["CORP", "corp.example", "corp"]}, ["corp", "corp.example"]),
        ({"name": "Beta"}, ["corp", "corp.example"]),
        ({"realms": []}, []),
    ):
        assert api.patch(TENANT, json=change).json()["settings"]["realms"] == realms


def test_deleted_tenant_can_be_restored_until_purged(api: httpx.Client) -> None:
    api.patch("/v1/msps/acme", json={"deletion_days": 3})
    deleted = api.delete("/v1/msps/acme/tenants/alpha").json()
    assert (deleted["status"], deleted["purge_at"] > deleted["updated_at"]) == ("deleting", True)
    refused = api.post(f"{TENANT}/resume")
    assert refusal(refused) == (409, "conflict")
    restored = api.post("/v1/msps/acme/tenants/alpha/restore").json()
    assert (restored["status"], restored["purge_at"]) == ("active", None)
    assert api.delete("/v1/msps/acme/tenants/nothing").json()["code"] == "tenant-not-found"


def test_pending_deletion_period_needs_a_matching_etag(api: httpx.Client) -> None:
    made = api.delete("/v1/msps/acme/tenants/alpha", params={"days": 9}).json()
    assert api.delete("/v1/msps/acme/tenants/alpha").json()["purge_at"] == made["purge_at"]
    refused = api.delete("/v1/msps/acme/tenants/alpha", params={"days": 1})
    assert refusal(refused) == (409, "conflict")
    assert "Restore" in refused.text


def test_msps_are_created_and_updated(api: httpx.Client, operator: dict[str, str]) -> None:
    created(api.post("/v1/msps", headers=operator, json={"slug": "bolt"}))
    assert api.get("/v1/msps/bolt").status_code == 404
    assert api.get("/v1/msps/acme").json()["deletion_days"] == 30
    assert api.patch("/v1/msps/acme", json={"name": "Acme!"}).json()["name"] == "Acme!"
    elsewhere = api.post("/v1/tenants", headers=operator, json={"msp": "nobody", "slug": "x"})
    assert refusal(elsewhere) == (422, "msp-not-found")


def test_tenant_cannot_resume_a_suspension_from_above(
    api: httpx.Client, operator: dict[str, str], as_tenant: As
) -> None:
    def own(verb: str) -> tuple[int, str]:
        answer = api.post(f"{TENANT}/{verb}", headers=mine)
        return answer.status_code, answer.json().get("code") or answer.json()["status"]

    mine = as_tenant()
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
