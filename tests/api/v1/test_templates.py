"""Templates: saved, attached, rolled out by the job, and compared with the tenants."""

from collections.abc import Callable

import httpx

from tests.api.v1.responses import created
from tests.templates.conftest import document

T = "/v1/msps/acme/templates"
_STAGES = {"stages": [{"share": 100, "minutes": 5}]}


def test_version_is_rolled_out_to_a_tenant_and_reverted(api: httpx.Client, work: Callable[[], bool]) -> None:
    created(api.post(T, json={"slug": "school", "name": "School"}))
    assert api.post(T, json={"slug": "school"}).status_code == 409
    refused = api.post(f"{T}/school/versions", json={"document": {"sites": [{"slug": "main", "zone": "UTC"}]}})
    assert (refused.status_code, refused.json()["place"]) == (422, "sites[0]")
    saved = api.post(f"{T}/school/versions", json={"document": document(10), "comment": "First"}).json()
    assert (saved["number"], saved["document"]) == (1, document(10))
    assert api.put(f"{T}/school/tenants/nobody", json={}).status_code == 404
    assert api.put(f"{T}/school/tenants/alpha", json={"overrides": ["x"]}).status_code == 422
    assert api.put(f"{T}/school/tenants/alpha", json={"overrides": ["site:main.time_zone"]}).status_code == 200
    assert api.delete(f"{T}/school").json()["code"] == "in-use"
    began = created(api.post(f"{T}/school/rollouts", json={"version": 1, **_STAGES}))
    rollout = f"{T}/school/rollouts/{began['id']}"
    work()
    (tenant,) = api.get(rollout).json()["tenants"]
    assert (tenant["tenant"], tenant["state"], tenant["devices_since"]) == ("alpha", "applied", 0)
    api.patch("/v1/tenants/alpha/sites/main", json={"time_zone": "Asia/Tokyo"})
    (follower,) = api.get(f"{T}/school/tenants", params={"drift": "true"}).json()["items"]
    assert (follower["version"], follower["drift"]) == (1, [])
    assert api.post(f"{rollout}/roll-back").status_code == 409
    assert api.post(f"{rollout}/pause").json()["state"] == "stopped"
    assert api.post(f"{rollout}/roll-back").json()["state"] == "rolling-back"
    for _ in range(2):
        work()
    assert api.get(rollout).json()["state"] in ("rolling-back", "rolled-back")
    assert [each["id"] for each in api.get(f"{T}/school/rollouts").json()["items"]] == [began["id"]]
    assert api.get(f"{T}/school/versions").json()["items"][0]["comment"] == "First"
    # If a tenant lacks an item, the error names the API operation that creates it.
    when = {"attribute": "endpoint.group", "operator": "equals", "value": "strangers"}
    rule = {"id": "one", "name": "One", "when": when, "then": {"verdict": "permit"}}
    guests = {"slug": "guests", "document": {"rules": [rule], "fallback": {"verdict": "deny"}}}
    created(api.post(f"{T}/school/versions", json={"document": {"policies": [guests]}}))
    stops = created(api.post(f"{T}/school/rollouts", json={"version": 2, **_STAGES}))
    work()
    stopped = api.get(f"{T}/school/rollouts/{stops['id']}").json()
    for detail in (stopped["detail"], stopped["tenants"][0]["detail"]):
        assert "create this object first: createEndpointGroup" in detail
    # The API accepts the id of a tenant too.
    own = api.get("/v1/tenants/alpha").json()["id"]
    assert api.put(f"{T}/school/tenants/{own}", json={}).json()["tenant"] == "alpha"
    assert api.delete(f"{T}/school/tenants/{own}").status_code == 204
