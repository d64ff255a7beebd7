"""CoA requests and re-evaluation of sessions."""

import httpx
import pytest
from sqlalchemy import Engine, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import CoaRequest, RadiusSession, Redecision
from tests.api.v1.responses import refusal, walk
from tests.factories.rows import make_row

TENANT = "/v1/tenants/alpha"
REQUESTS, REDECISIONS = f"{TENANT}/coa-requests", f"{TENANT}/redecisions"


@pytest.fixture
def live(owner_engine: Engine, tenant_id: TenantId) -> None:
    absent = ("site_id", "nas_id", "nas_address", "framed_ip", "framed_ipv6", "framed_prefix", "delegated_prefix")
    with Session(owner_engine) as session, session.begin():
        for number in (1, 2):
            values = {"mac": f"02a0c000000{number}", "identity": f"user-{number}", "nas_key": "switch-1|192.0.2.7"}
            nothing = dict.fromkeys((*absent, "stopped_at"))
            make_row(session, RadiusSession.__table__, tenant_id, started_at=utc_now(), **values, **nothing)


@pytest.mark.usefixtures("live")
def test_requests_are_created_listed_cancelled_and_retried(api: httpx.Client, owner_engine: Engine) -> None:
    asked = api.post(REQUESTS, json={"kind": "disconnect", "nas": "switch-1"})
    assert asked.status_code == 202, asked.text
    first, second = sorted(each["id"] for each in asked.json()["items"])
    assert [each["id"] for each in walk(api, REQUESTS, limit=1)] == [second, first]
    assert api.post(f"{REQUESTS}/{first}/retry").json()["code"] == "conflict"
    assert api.post(f"{REQUESTS}/{first}/cancel").json()["state"] == "withdrawn"
    with Session(owner_engine) as session, session.begin():
        session.execute(update(CoaRequest).where(CoaRequest.id == second).values(state="refused", error_cause=503))
    refused = api.get(f"{REQUESTS}/{second}").json()
    assert refused["explanation"].startswith("Error-Cause 503")
    again = api.post(f"{REQUESTS}/{second}/retry")
    assert again.status_code == 202, again.text
    assert (again.json()["session"], again.json()["state"]) == (refused["session"], "queued")
    for wanted, found in (
        ({"state": "refused"}, [second]),
        ({"session": refused["session"]}, [again.json()["id"], second]),
        ({"mac": "02-a0-c0-00-00-01", "state": "withdrawn"}, [first]),
        ({"user": "USER-1"}, [first]),
        ({"reason": "endpoint-blocked"}, []),
    ):
        assert [each["id"] for each in api.get(REQUESTS, params=wanted).json()["items"]] == found, wanted
    assert api.get(REQUESTS, params={"reason": "perhaps"}).status_code == 422
    assert refusal(api.post(REQUESTS, json={"kind": "bounce", "user": "nobody"})) == (409, "no-live-session")
    assert api.get(f"{REQUESTS}/{2**62}").json()["code"] == "coa-request-not-found"


def test_redecision_is_started_shown_approved_and_cancelled(api: httpx.Client, owner_engine: Engine) -> None:
    started = api.post(REDECISIONS)
    assert started.status_code == 202, started.text
    run = started.json()
    assert (run["state"], run["scope"]) == ("deciding", "all")
    assert api.post(REDECISIONS).status_code == 409
    assert api.post(f"{REDECISIONS}/{run['id']}/approve").status_code == 409
    with Session(owner_engine) as session, session.begin():
        session.execute(update(Redecision).values(state="waiting", waits_for="ceiling"))
    path = f"{REDECISIONS}/{run['id']}"
    seen = api.get(path)
    assert seen.json()["waits_for"] == "ceiling"
    deciding = {"If-Match": started.headers["etag"]}
    for verb in ("approve", "cancel"):
        refused = api.post(f"{path}/{verb}", headers=deciding)
        assert refusal(refused) == (412, "has-changed")
    approved = api.post(f"{path}/approve", headers={"If-Match": seen.headers["etag"]})
    assert (approved.json()["state"], approved.json()["waits_for"]) == ("sending", None)
    # Requests that are already sent do not block a cancellation.
    with Session(owner_engine) as session, session.begin():
        session.execute(update(Redecision).values(unchanged=7))
    assert api.get(path, headers={"If-None-Match": approved.headers["etag"]}).status_code == 200
    stopped = api.post(f"{path}/cancel", headers={"If-Match": approved.headers["etag"]})
    assert (stopped.json()["state"], stopped.json()["withdrawn"]) == ("stopped", 0)
    assert stopped.headers["etag"].strip('"').partition("-")[0] in api.get(path).headers["etag"]
    assert [each["id"] for each in api.get(REDECISIONS).json()["items"]] == [run["id"]]
    assert api.get(f"{REDECISIONS}/{run['id'] + 1}").json()["code"] == "redecision-not-found"


def test_redecision_is_previewed_and_configured(api: httpx.Client) -> None:
    preview = api.post(f"{REDECISIONS}/preview", json={"in_force": True})
    assert preview.status_code == 200, preview.text
    assert (preview.json()["sessions"], preview.json()["over_ceiling"]) == (0, False)
    assert api.post(f"{REDECISIONS}/preview", json={"policy": "unheard-of"}).status_code == 422
    changed = api.patch(f"{REDECISIONS}/settings", json={"mode": "preview", "per_second": 5})
    assert changed.json() == api.get(f"{REDECISIONS}/settings").json()
    assert changed.json().items() >= {"mode": "preview", "per_second": 5, "ceiling_percent": 10}.items()
