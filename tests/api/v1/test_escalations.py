"""A caller with weak permissions must not get the effect of a strong permission.

Each case is an attack.
"""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from nac.core.access.grants import Owner
from nac.core.jobs import service as jobs
from nac.kit.db import MspScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from tests.api.v1.conftest import As, bearer, request_pem
from tests.api.v1.responses import created, refusal
from tests.factories.tenancy import Platform

ALPHA = "/v1/tenants/alpha"
SCHOOL = "/v1/msps/acme/templates/school"
_OPEN = {"rules": [], "fallback": {"verdict": "permit"}}
_ADMITS_ALL = {
    "policies": [{"slug": "open", "document": _OPEN}],
    "sites": [{"slug": "main", "policy": "open", "monitor": True}],
}
_TEMPLATES = ("template.manage", "template.read")
_PARTS = ("policy.manage", "policy.publish", "site.manage")
_ROLLOUT = {"version": 1, "stages": [{"share": 100, "minutes": 5}]}


def _is_refused(answer: httpx.Response, *missing: str) -> bool:
    told = answer.json()["detail"] if answer.status_code == 403 else ""
    return answer.status_code == 403 and all(name in told for name in missing)


@pytest.fixture
def school(api: httpx.Client) -> None:
    """A template whose first version admits every device."""
    created(api.post("/v1/msps/acme/templates", json={"slug": "school"}))
    created(api.post(f"{SCHOOL}/versions", json={"document": _ADMITS_ALL}))


@pytest.mark.usefixtures("school")
def test_template_token_cannot_attach_tenants(api: httpx.Client, as_msp: As) -> None:
    weak = as_msp(*_TEMPLATES)
    refused = api.put(f"{SCHOOL}/tenants/alpha", json={}, headers=weak)
    assert _is_refused(refused, "policy.manage", "policy.publish", "site.manage"), refused.text
    assert api.get(f"{SCHOOL}/tenants").json()["items"] == []
    # The overridden parts of the template do not reach the tenant.
    kept = {"overrides": ["policy:open", "site:main"]}
    assert api.put(f"{SCHOOL}/tenants/alpha", json=kept, headers=weak).status_code == 200
    assert _is_refused(api.put(f"{SCHOOL}/tenants/alpha", json={}, headers=weak), "policy.publish")
    strong = as_msp(*_TEMPLATES, *_PARTS)
    assert api.put(f"{SCHOOL}/tenants/alpha", json={}, headers=strong).status_code == 200


@pytest.mark.usefixtures("school")
def test_template_token_cannot_start_a_rollout(api: httpx.Client, as_msp: As) -> None:
    assert api.put(f"{SCHOOL}/tenants/alpha", json={}).status_code == 200
    for missing in _PARTS:
        held = [each for each in _PARTS if each != missing]
        refused = api.post(f"{SCHOOL}/rollouts", json=_ROLLOUT, headers=as_msp(*_TEMPLATES, *held))
        assert _is_refused(refused, missing), refused.text
    assert api.get(f"{SCHOOL}/rollouts").json()["items"] == []
    assert api.get("/v1/msps/acme/jobs").json()["items"] == []
    assert api.post(f"{SCHOOL}/rollouts", json=_ROLLOUT, headers=as_msp(*_TEMPLATES, *_PARTS)).status_code == 201


@pytest.mark.usefixtures("school")
def test_template_token_cannot_resume_or_revert_a_rollout(api: httpx.Client, as_msp: As, owner_engine: Engine) -> None:
    weak = as_msp(*_TEMPLATES)
    api.put(f"{SCHOOL}/tenants/alpha", json={})
    started = api.post(f"{SCHOOL}/rollouts", json=_ROLLOUT).json()
    path = f"{SCHOOL}/rollouts/{started['id']}"
    assert api.post(f"{path}/pause", headers=weak).status_code == 200
    assert _is_refused(api.post(f"{path}/resume", headers=weak), "policy.publish")
    with owner_engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE rollout_tenants SET state = 'applied', applied_at = now(), before = %s::jsonb",
            ('{"site:main.monitor": false}',),
        )
    assert _is_refused(api.post(f"{path}/roll-back", headers=weak), "policy.publish", "site.manage")
    strong = as_msp(*_TEMPLATES, "site.manage", "policy.publish")
    assert api.post(f"{path}/roll-back", headers=strong).status_code == 200


@pytest.mark.usefixtures("school")
def test_overrides_cannot_be_removed_during_a_rollout(api: httpx.Client, as_msp: As) -> None:
    weak = as_msp(*_TEMPLATES)
    kept = {"overrides": ["policy:open", "site:main"]}
    api.put(f"{SCHOOL}/tenants/alpha", json=kept)
    assert api.post(f"{SCHOOL}/rollouts", json=_ROLLOUT, headers=weak).status_code == 201
    harmless = {"document": {"settings": {"silent_days": 5}}}
    assert api.post(f"{SCHOOL}/versions", json=harmless, headers=weak).status_code == 201
    # The newest version needs only tenant.manage, but the version being rolled out needs more.
    refused = api.put(f"{SCHOOL}/tenants/alpha", json={}, headers=as_msp(*_TEMPLATES, "tenant.manage"))
    assert _is_refused(refused, "policy.publish"), refused.text


@pytest.mark.usefixtures("school")
def test_retrying_a_rollout_needs_all_its_permissions(
    api: httpx.Client, as_msp: As, app_engine: Engine, platform: Platform
) -> None:
    api.put(f"{SCHOOL}/tenants/alpha", json={})
    started = api.post(f"{SCHOOL}/rollouts", json=_ROLLOUT).json()
    with session_scope(MspScope(platform.msp_id), engine=app_engine) as session:
        job = jobs.require_job(session, owner=Owner(platform.msp_id), job_id=started["job_id"])
        job.state = "failed"
    path = f"/v1/msps/acme/jobs/{started['job_id']}/retry"
    assert _is_refused(api.post(path, headers=as_msp("job.manage", *_TEMPLATES)), "policy.manage")
    assert api.post(path, headers=as_msp("job.manage", *_TEMPLATES, *_PARTS)).status_code == 200


@pytest.mark.parametrize(
    "change", [{"monitor": True}, {"fallback": {"verdict": "permit"}}, {"policy": None}, {"default": True}]
)
def test_site_decision_settings_need_policy_publish(api: httpx.Client, as_tenant: As, change: dict[str, Any]) -> None:
    before = api.get(f"{ALPHA}/sites/main").json()
    refused = api.patch(f"{ALPHA}/sites/main", json=change, headers=as_tenant("site.manage", "site.read"))
    assert _is_refused(refused, "policy.publish"), refused.text
    assert api.get(f"{ALPHA}/sites/main").json() == before
    both = as_tenant("site.manage", "policy.publish")
    assert api.patch(f"{ALPHA}/sites/main", json=change, headers=both).status_code == 200


def test_site_name_and_creation_need_no_policy_publish(api: httpx.Client, as_tenant: As) -> None:
    own = as_tenant("site.manage")
    assert api.patch(f"{ALPHA}/sites/main", json={"name": "Head office"}, headers=own).status_code == 200
    assert api.post(f"{ALPHA}/sites", json={"slug": "lab"}, headers=own).json()["monitor"] is False
    # The creation of a site does not accept this setting.
    assert api.post(f"{ALPHA}/sites", json={"slug": "lab2", "monitor": True}, headers=own).status_code == 422


def test_token_with_more_permissions_cannot_be_revoked(api: httpx.Client, as_tenant: As) -> None:
    weak = as_tenant("token.manage", "token.read", "site.read")
    made = {"name": "strong", "permissions": ["token.read", "policy.publish"], "expires_at": "2027-01-01T00:00:00Z"}
    strong = api.post(f"{ALPHA}/tokens", json=made).json()
    path = f"{ALPHA}/tokens/{strong['id']}"
    assert _is_refused(api.delete(path, headers=weak), "policy.publish")
    assert api.get(f"{ALPHA}/tokens", headers=bearer(strong["token"])).status_code == 200
    equal = api.post(f"{ALPHA}/tokens", json=made | {"name": "weak", "permissions": ["site.read"]}).json()
    assert api.delete(f"{ALPHA}/tokens/{equal['id']}", headers=weak).status_code == 204
    assert api.delete(path, headers=as_tenant("token.manage", "token.read", "policy.publish")).status_code == 204


@pytest.mark.parametrize("place", ["/v1/tenants/alpha", "/v1/msps/acme"])
def test_changing_sign_in_rules_needs_all_permissions(api: httpx.Client, as_tenant: As, as_msp: As, place: str) -> None:
    weak = (as_tenant if "tenants" in place else as_msp)("member.manage", "member.read")
    refused = api.put(f"{place}/sign-in-rules", json={"two_factors": True}, headers=weak)
    assert _is_refused(refused, "policy.publish", "token.manage"), refused.text
    assert api.get(f"{place}/sign-in-rules").json()["two_factors"] is False
    assert api.put(f"{place}/sign-in-rules", json={"two_factors": True}).status_code == 200


def test_deleting_single_sign_on_needs_all_permissions(api: httpx.Client, as_tenant: As) -> None:
    settings = {"issuer": "https://login.acme.example", "client_id": "admit", "client_secret": "hush"}
    assert api.put(f"{ALPHA}/sign-on", json=settings).status_code == 200
    refused = api.delete(f"{ALPHA}/sign-on", headers=as_tenant("sign-on.manage", "sign-on.read"))
    assert _is_refused(refused, "policy.publish"), refused.text
    assert api.get(f"{ALPHA}/sign-on").status_code == 200
    assert api.delete(f"{ALPHA}/sign-on").status_code == 204


def test_live_session_attributes_need_policy_publish(api: httpx.Client, as_tenant: As) -> None:
    vlan = [{"attribute": "Tunnel-Private-Group-Id", "value": "1", "tag": 1}]
    wanted = {"kind": "change", "mac": "00:00:5e:00:53:01", "attributes": vlan}
    weak = as_tenant("session.disconnect")
    assert _is_refused(api.post(f"{ALPHA}/coa-requests", json=wanted, headers=weak), "policy.publish")
    strong = as_tenant("session.disconnect", "policy.publish")
    assert api.post(f"{ALPHA}/coa-requests", json=wanted, headers=strong).status_code != 403
    asked = {"kind": "disconnect", "mac": "00:00:5e:00:53:01"}
    assert api.post(f"{ALPHA}/coa-requests", json=asked, headers=weak).status_code != 403


def test_feed_is_limited_to_its_creator_permissions(api: httpx.Client, as_tenant: As) -> None:
    def feed(name: str, *kinds: str) -> dict[str, Any]:
        settings = {"url": f"https://siem.example/{name}"} | ({"kinds": kinds} if kinds else {})
        return {"kind": "webhook", "name": name, "settings": settings}

    weak = as_tenant("feed.manage", "tenant.read")
    assert _is_refused(api.post(f"{ALPHA}/feeds", json=feed("all"), headers=weak), "audit.read")
    assert _is_refused(api.post(f"{ALPHA}/feeds", json=feed("log", "authentication"), headers=weak), "log.read")
    assert api.get(f"{ALPHA}/feeds").json()["items"] == []
    assert api.post(f"{ALPHA}/feeds", json=feed("alarms", "alarm"), headers=weak).status_code == 201
    assert api.post(f"{ALPHA}/feeds", json=feed("log", "authentication")).status_code == 201
    # The caller can add neither more kinds nor another receiver.
    for slug, change in (("alarms", {"kinds": ["audit"]}), ("log", {"url": "https://evil.example/"})):
        assert _is_refused(api.patch(f"{ALPHA}/feeds/{slug}", json=change, headers=weak)), slug
    assert api.patch(f"{ALPHA}/feeds/log", json={"name": "siem"}, headers=weak).status_code == 200


def test_tenant_files_need_the_permissions_of_their_parts(api: httpx.Client, as_msp: As) -> None:
    path, files = "/v1/msps/acme/tenants/alpha/export", "/v1/msps/acme/tenant-files"
    assert _is_refused(api.post(path, json={}, headers=as_msp("tenant.delete")), "certificate.read")
    (grant,) = api.get("/v1/grants").json()["grants"]
    keys = {"passphrase": "correct horse battery staple"}
    readers = [each for each in grant["permissions"] if each.endswith(".read")]
    assert _is_refused(api.post(path, json=keys, headers=as_msp("tenant.delete", *readers)), "secret.reveal")
    refused = api.post(path, json=keys, headers=as_msp("tenant.delete", "secret.reveal", *readers))
    assert _is_refused(refused, "authority.manage"), refused.text
    made = api.post(path, json=keys)
    assert made.status_code == 202
    assert api.get(f"{files}/{made.json()['id']}", headers=as_msp("tenant.delete")).status_code == 403
    file = {"slug": "copy", "file": "UEsDBBQ="}
    assert _is_refused(api.post(files, json=file, headers=as_msp("tenant.create")), "authority.manage")
    # The file can have feeds, which send the audit log.
    weak = as_msp(*(each for each in grant["permissions"] if each != "audit.read"))
    assert _is_refused(api.post(files, json=file, headers=weak), "audit.read")


@pytest.fixture
def jobs_with_device_data(app_engine: Engine, tenant_id: TenantId, api: httpx.Client) -> None:
    """Jobs that contain device data: a finished replay, a failed publication and a failed import."""
    result = {"differences": [{"examples": [{"mac": "00005e005301"}]}]}
    problem = {"code": "refused", "title": "Refused.", "detail": "00005e005301"}
    for needs, told in (
        ({"log.read"}, {"state": "done", "result": result}),
        ({"policy.publish"}, {"state": "failed", "problem": problem}),
        ({"endpoint.manage", "user.manage"}, {"state": "failed", "problem": problem}),
    ):
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            job = jobs.start_job(
                session,
                actor="person:ann@acme.example",
                owner=Owner(tenant_id=tenant_id),
                kind="test",
                title="T",
                input={},
                needs=[Permission(each) for each in needs],
                seal=lambda plain, _: plain,
            )
            for name, value in told.items():
                setattr(job, name, value)


@pytest.mark.usefixtures("jobs_with_device_data")
def test_job_results_need_the_permission_to_read_them(api: httpx.Client, as_tenant: As) -> None:
    for held, seen in (
        ((), 0),
        (("log.read",), 2),
        (("policy.publish",), 1),
        (("endpoint.read",), 0),
        (("endpoint.read", "user.manage"), 1),
        (("log.read", "endpoint.read", "user.read"), 3),
    ):
        own = as_tenant("job.read", *held)
        listed = api.get(f"{ALPHA}/jobs", headers=own).json()["items"]
        assert [api.get(f"{ALPHA}/jobs/{job['id']}", headers=own).json() for job in listed] == listed
        assert ["00005e005301" in str(job) for job in listed].count(True) == seen, held
        assert [job["problem"] and job["problem"]["code"] for job in listed] == ["refused", "refused", None]


@pytest.mark.usefixtures("school")
def test_drift_needs_the_permissions_to_read_it(api: httpx.Client, as_msp: As, work: Callable[[], bool]) -> None:
    assert api.put(f"{SCHOOL}/tenants/alpha", json={}).status_code == 200
    created(api.post(f"{SCHOOL}/rollouts", json=_ROLLOUT))
    assert work()
    own = {"rules": [], "fallback": {"verdict": "permit", "vlan": "666"}}
    assert api.put(f"{ALPHA}/policies/open/draft", json=own).status_code == 200
    assert api.post(f"{ALPHA}/policies/open/publish", json={}).status_code == 200
    path, drift = f"{SCHOOL}/tenants", {"drift": "true"}
    assert api.get(path, headers=as_msp("template.read")).status_code == 200
    refused = api.get(path, params=drift, headers=as_msp("template.read", "site.read"))
    assert _is_refused(refused, "policy.read"), refused.text
    answer = api.get(path, params=drift, headers=as_msp("template.read", "site.read", "policy.read"))
    assert [each["part"] for each in answer.json()["items"][0]["drift"]] == ["policy:open"]


SERVER = "radius.alpha.admit.example"
_P12 = {"pkcs12": {"password": "hush hush hush"}}


@pytest.mark.usefixtures("alpha")
def test_radius_server_names_cannot_be_issued(api: httpx.Client) -> None:
    for path, body in (
        ("certificates", {"name": SERVER, "profile": "eap-client-device", **_P12}),
        ("certificates", {"name": SERVER, "profile": "eap-client-device", "csr": request_pem(SERVER)}),
        ("certificates", {"name": "kiosk", "profile": "radsec-nas", "names": [f"dns:{SERVER}"], **_P12}),
        ("certificates", {"name": SERVER, "profile": "radsec-server"}),
        ("enrolment-links", {"common_name": SERVER}),
        ("enrolment-secrets", {"common_name": "kiosk", "sans": [f"dns:x.{SERVER}"]}),
    ):
        refused = api.post(f"{ALPHA}/{path}", json=body)
        assert refusal(refused) == (422, "certificate-refused"), refused.text


@pytest.mark.usefixtures("alpha")
def test_server_certificate_needs_authority_manage(api: httpx.Client, as_tenant: As) -> None:
    asked = {"name": "radsec.alpha.example", "profile": "radsec-server", **_P12}
    refused = api.post(f"{ALPHA}/certificates", json=asked, headers=as_tenant("certificate.issue"))
    assert _is_refused(refused, "authority.manage"), refused.text
    both = as_tenant("certificate.issue", "authority.manage")
    assert api.post(f"{ALPHA}/certificates", json=asked, headers=both).status_code == 201


@pytest.mark.usefixtures("alpha")
def test_one_time_secret_sets_a_name_or_allows_any(api: httpx.Client) -> None:
    """Secrets that do neither, or both, are in test_invalid_fields.py."""
    for kind in ("est", "scep"):
        for good in ({"common_name": "kiosk"}, {"any_name": True}, {"uses": 2}):
            created(api.post(f"{ALPHA}/enrolment-secrets", json={"kind": kind, **good}))


def test_user_cannot_grant_missing_permissions(api: httpx.Client, as_tenant: As) -> None:
    few = as_tenant("token.manage", "member.manage", "role.manage", "token.read")
    manage = {"permissions": ["endpoint.manage"]}
    for noun, body in (
        ("tokens", {"name": "x", "expires_at": "2027-01-01T00:00:00Z", **manage}),
        ("members", {"email": "eve@example.com", "role": "tenant-admin"}),
        ("roles", {"slug": "x", "name": "x", **manage}),
    ):
        refused = api.post(f"{ALPHA}/{noun}", json=body, headers=few)
        assert refusal(refused) == (403, "permission-missing"), refused.text
        created(api.post(f"{ALPHA}/{noun}", json=body))
