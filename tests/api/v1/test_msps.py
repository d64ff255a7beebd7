"""MSPs: suspended and deleted, with their users, tokens, tenants and rows; their templates and rollouts."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Engine, func, select, update

from nac.accounts.members import service as members
from nac.accounts.people import service as people
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import PersonScope, PlatformScope, session_scope
from nac.kit.db.base import Base
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import permissions_at
from nac.models import Tenant
from nac.onboarding import tenant_purge
from tests.accounts.conftest import scope_of
from tests.api.v1.conftest import MakeToken, bearer
from tests.api.v1.responses import created, refusal
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.sign_in.conftest import PASSWORD, Browser
from tests.templates.conftest import document

Ask = Callable[..., httpx.Response]
T = "/v1/msps/acme/templates"
_STAGES = {"stages": [{"share": 100, "minutes": 5}]}


@pytest.fixture
def operator(api: httpx.Client, make_token: MakeToken) -> Ask:
    """The platform operator."""
    headers = bearer(make_token(Owner()))

    def ask(method: str, path: str, **given: object) -> httpx.Response:
        more = given.pop("headers", {})
        return api.request(method, f"/v1{path}", headers=headers | dict(more), **given)  # type: ignore[call-overload, arg-type]

    return ask


Person = Callable[[Owner, str, str], Browser]
TOMORROW = (utc_now() + timedelta(days=1)).isoformat()
STOPPED = (403, "msp-suspended")


@pytest.fixture
def person(app_engine: Engine, api: httpx.Client) -> Person:
    """Create a signed-in member of the owner with this role and mail address."""

    def make(owner: Owner, role: str, email: str) -> Browser:
        held = permissions_at(owner.level)
        with session_scope(scope_of(owner), engine=app_engine) as session:
            added = members.create_member(session, actor=ACTOR, held=held, owner=owner, email=email, role=role)
        with session_scope(PersonScope(added.person.id), engine=app_engine) as session:
            people.set_password(session, actor=ACTOR, person_id=added.person.id, password=PASSWORD)
        browser = Browser(api)
        # The session replaces the client's own credential.
        browser.headers["Authorization"] = ""
        browser.sign_in(email)
        return browser

    return make


def test_suspended_msp_blocks_its_users_but_not_its_tenants(
    api, person, make_token, operator, platform, tenant_id, msp_token
) -> None:
    ann = person(Owner(platform.msp_id), "msp-admin", "ann@example.com")
    tom = person(Owner(platform.msp_id), "msp-technician", "tom@example.com")
    hal = person(Owner(tenant_id=tenant_id), "tenant-admin", "hal@example.com")
    token = {"name": "mine", "permissions": ["tenant.read"], "expires_at": TOMORROW}
    of_ann = ann.ask("POST", "/tenants/alpha/tokens", token).json()["token"]
    of_hal = hal.ask("POST", "/tenants/alpha/tokens", token).json()["token"]
    of_tenant = make_token(Owner(tenant_id=tenant_id))
    # No user created the MSP's token. Its rows belong to the token, and so do rows of tokens that it created.
    of_msp = _token_created_by(api, msp_token, token | {"permissions": ["tenant.read", "token.manage"]})
    of_its_own = _token_created_by(api, of_msp, token)

    def by(secret: str, path: str) -> httpx.Response:
        return api.get(f"/v1{path}", headers=bearer(secret))

    assert by(of_ann, "/tenants/alpha").status_code == by(of_hal, "/tenants/alpha").status_code == 200
    suspended = operator("POST", "/msps/acme/suspend", json={})
    assert (suspended.status_code, suspended.json()["status"]) == (200, "suspended")

    for path in ("/msps/acme", "/msps/acme/tenants", "/msps/acme/audit", "/tenants/alpha", "/tenants/alpha/endpoints"):
        assert refusal(by(msp_token, path)) == STOPPED
        for who in (ann, tom):
            assert refusal(who.ask("GET", path)) == STOPPED
    assert refusal(ann.ask("POST", "/tenants", {"slug": "new"})) == STOPPED
    assert refusal(ann.ask("POST", "/tenants", {"slug": "new", "msp": "acme"})) == STOPPED
    assert refusal(ann.ask("PATCH", "/tenants/alpha", {"name": "Mine"})) == STOPPED
    # The account is unchanged. The response reports that the MSP is suspended.
    [place] = ann.ask("GET", "/me/places").json()["items"]
    assert (place["slug"], place["status"], place["permissions"]) == ("acme", "suspended", [])
    # A token that an MSP's user created elsewhere ends with the user. Tokens of the tenant's own users remain valid.
    for secret in (of_ann, of_msp, of_its_own):
        assert by(secret, "/tenants/alpha").status_code == 401
    for secret in (of_hal, of_tenant):
        assert by(secret, "/tenants/alpha").json()["status"] == "active"
    hal.good("PATCH", "/tenants/alpha", {"name": "Mine"})
    # Users of another MSP get no information, and the operator is not affected.
    assert operator("POST", "/msps", json={"slug": "bolt"}).status_code == 201
    assert operator("GET", "/msps/acme").json()["status"] == "suspended"
    assert operator("GET", "/tenants/alpha").status_code == 200
    assert refusal(operator("POST", "/tenants", json={"slug": "new", "msp": "acme"})) == STOPPED

    assert operator("POST", "/msps/acme/resume").json()["status"] == "active"
    for secret in (of_ann, of_msp, of_its_own):
        assert by(secret, "/tenants/alpha").status_code == 200
    assert by(msp_token, "/msps/acme").status_code == 200
    assert ann.ask("GET", "/msps/acme").status_code == 200


def _token_created_by(api: httpx.Client, secret: str, token: dict[str, object]) -> str:
    return str(created(api.post("/v1/tenants/alpha/tokens", json=token, headers=bearer(secret)))["token"])


def test_tenants_follow_their_msp_on_request(
    api: httpx.Client, app_engine: Engine, make_token: MakeToken, operator: Ask, platform: Platform, tenant_id: TenantId
) -> None:
    for slug in ("bravo", "charlie"):
        make_tenant(app_engine, platform, slug)
    operator("POST", "/tenants/bravo/suspend")

    def statuses() -> list[str]:
        with session_scope(PlatformScope(), engine=app_engine) as session:
            return list(session.scalars(select(Tenant.status).order_by(Tenant.slug)))

    operator("POST", "/msps/acme/suspend", json={})
    assert statuses() == ["active", "suspended", "active"]
    # This applies also to a tenant that is already suspended.
    operator("POST", "/msps/acme/suspend", json={"with_tenants": True})
    assert statuses() == ["suspended"] * 3
    own = bearer(make_token(Owner(tenant_id=tenant_id)))
    assert refusal(api.post("/v1/tenants/alpha/resume", headers=own)) == (403, "suspended-from-above")
    # A tenant that was suspended separately stays suspended.
    operator("POST", "/tenants/charlie/suspend")
    operator("POST", "/msps/acme/resume")
    assert statuses() == ["active", "suspended", "suspended"]
    told = operator("GET", "/platform/audit").json()["items"]
    [resumed] = [row for row in told if row["action"] == "msp.resume"]
    assert (resumed["target"], resumed["after"]) == ("acme", {"status": "active", "tenants": 1})
    assert ("tenant.resume", "alpha") in {(row["action"], row["target"]) for row in told}


def test_rollouts_of_a_suspended_msp_stop(api: httpx.Client, operator: Ask, tenant_id: TenantId) -> None:
    api.post(T, json={"slug": "base"})
    created(api.post(f"{T}/base/versions", json={"document": document(10)}))
    api.put(f"{T}/base/tenants/alpha", json={})
    stages = [{"share": 100, "minutes": 5}]
    created(api.post(f"{T}/base/rollouts", json={"version": 1, "stages": stages}))
    operator("POST", "/msps/acme/suspend", json={})
    operator("POST", "/msps/acme/resume")
    [row] = api.get(f"{T}/base/rollouts").json()["items"]
    assert row["state"] == "stopped"


def test_msp_is_deleted_without_tenants_and_keeps_its_audit(
    api, person, app_engine, owner_engine, operator, platform, tenant_id
) -> None:
    ann = person(Owner(platform.msp_id), "msp-admin", "ann@example.com")
    ann.ask("POST", "/msps/acme/roles", {"slug": "own", "name": "Own", "permissions": ["site.read"]})
    ann.ask("POST", "/msps/acme/members", {"email": "bob@example.com", "role": "own"})
    ann.ask("PUT", "/msps/acme/sign-in-rules", {"two_factors": False})
    ann.ask("POST", "/msps/acme/tokens", {"name": "t", "permissions": ["tenant.read"], "expires_at": TOMORROW})
    api.post(T, json={"slug": "base"})
    api.post(f"{T}/base/versions", json={"document": document(10)})
    api.put(f"{T}/base/tenants/alpha", json={})
    assert refusal(operator("DELETE", "/msps/acme")) == (409, "msp-has-tenants")
    assert api.delete("/v1/msps/acme/tenants/alpha").json()["status"] == "deleting"
    refused = operator("DELETE", "/msps/acme")
    assert refusal(refused) == (409, "msp-has-tenants")
    assert "1 of them being deleted." in refused.json()["detail"]
    with session_scope(PlatformScope(), engine=app_engine) as session:
        session.execute(update(Tenant).values(purge_at=None))
        tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=tenant_id)
    seen = operator("GET", "/msps/acme")
    assert operator("DELETE", "/msps/acme", headers={"If-Match": '"another"'}).status_code == 412
    given = {"If-Match": seen.headers["etag"], "Idempotency-Key": "once"}
    assert operator("DELETE", "/msps/acme", headers=given).status_code == 204
    assert operator("GET", "/msps/acme").status_code == 404
    with owner_engine.connect() as connection:
        left = {
            f"{table.name}.{column.name}"
            for table in Base.metadata.tables.values()
            for column in table.columns
            if column.name in ("msp_id", "via_msp_id")
            and connection.scalar(select(func.count()).select_from(table).where(column == platform.msp_id))
        }
    assert {"audit_log.msp_id"} <= left <= {"audit_log.msp_id", "audit_chains.msp_id"}
    # After the deletion, the users have no owner.
    assert ann.ask("GET", "/me").status_code == 200
    told = operator("GET", "/platform/audit?target=acme").json()["items"]
    assert [row["action"] for row in told][:1] == ["msp.delete"]
    assert UUID(told[0]["msp_id"]) == platform.msp_id


def slugs(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["slug"] for each in answer.json()["items"]]


def test_caller_lists_only_visible_msps(
    api: httpx.Client, person: Person, make_token: MakeToken, operator: Ask, platform: Platform, tenant_id: TenantId
) -> None:
    bolt = Owner(MspId(UUID(operator("POST", "/msps", json={"slug": "bolt"}).json()["id"])))
    assert slugs(operator("GET", "/msps")) == ["acme", "bolt"]
    assert (slugs(api.get("/v1/msps")), slugs(api.get("/v1/msps?text=bolt"))) == (["acme"], [])
    # A token without the permission to read MSPs.
    few = bearer(make_token(bolt, "tenant.read"))
    assert slugs(api.get("/v1/msps", headers=few)) == []
    ann = person(Owner(platform.msp_id), "msp-admin", "ann@example.com")
    tom = person(Owner(tenant_id=tenant_id), "tenant-admin", "tom@example.com")
    assert (slugs(ann.ask("GET", "/msps")), slugs(tom.ask("GET", "/msps"))) == (["acme"], [])
    chosen = {"email": "tom@example.com", "role": "msp-technician", "tenants": ["alpha"]}
    assert api.post("/v1/msps/acme/members", json=chosen).status_code == 201
    # Equal to the rows that separate requests return.
    assert slugs(tom.ask("GET", "/msps")) == ["acme"]
    assert tom.ask("GET", "/msps/acme").status_code == 200
    assert api.put("/v1/msps/acme/sign-in-rules", json={"two_factors": True}).status_code == 200
    assert slugs(ann.ask("GET", "/msps")) == []
    assert slugs(api.get("/v1/msps")) == ["acme"]
    assert operator("POST", "/msps/acme/suspend").status_code == 200
    assert slugs(api.get("/v1/msps")) == []


def test_msps_are_paged_and_filtered_by_state(api: httpx.Client, operator: Ask) -> None:
    assert operator("POST", "/msps", json={"slug": "bolt"}).status_code == 201
    first = operator("GET", "/msps?limit=1&sort=-slug")
    assert slugs(first) == ["bolt"]
    rest = f"/msps?limit=1&sort=-slug&after={first.json()['next']}"
    # A cursor from the list of another caller returns only rows of the current caller.
    assert slugs(operator("GET", rest)) == slugs(api.get(f"/v1{rest}")) == ["acme"]
    operator("POST", "/msps/bolt/suspend", json={})
    for statuses in (["suspended"], ["active"], ["active", "suspended"]):
        found = [slug for slug, status in (("acme", "active"), ("bolt", "suspended")) if status in statuses]
        assert slugs(operator("GET", "/msps", params={"status": statuses})) == found
    assert operator("GET", "/msps", params={"status": "gone"}).status_code == 422


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
