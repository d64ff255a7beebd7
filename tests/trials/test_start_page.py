"""`/start/<tenant>` and `/second-factor`: the first steps of a new user, with forms only."""

import re
from datetime import timedelta

from sqlalchemy import select, update

from api.main import create_app
from api.start import sign_in_pages, tenant_pages
from api.v1.radius_secret import RadiusServer
from nac.accounts.members import service as members
from nac.accounts.sign_in import rules
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission, PermissionLevel, permissions_at
from nac.models import AuthLog, Membership, SignIn, Trial
from nac.onboarding.trials import lifecycle
from nac.onboarding.trials.provisioning import TRIAL_MSP_SLUG
from nac.sessions.decisions.service import LoggedDecision
from nac.tenancy import msps
from nac.tenancy.tenants import service as tenants
from tests.api.app_server import serve_app, settings_of_public
from tests.factories.tenancy import ACTOR
from tests.sign_in.conftest import code_of
from tests.trials.conftest import ANN, PASSWORD

_MAC = "00:00:5e:00:53:77"
_FACTOR = "/second-factor"


def test_device_is_admitted_by_its_address(start):
    wrong = start.post("device", mac="<zz>", name='My "printer"')
    assert wrong.status_code == 422
    assert "Invalid MAC address" in wrong.text
    assert "<zz>" not in wrong.text
    assert 'value="My &#34;printer&#34;"' in wrong.text
    made_up = start.post("device", mac="02:00:5e:00:53:77")
    assert (made_up.status_code, "allow_random" in made_up.text) == (422, False)
    assert "This is a random address" in made_up.text
    done = start.post("device", mac="00-00-5E-00-53-77", name="Printer")
    assert f"{_MAC} is approved. The cell applies the change in a few seconds" in done.text
    listed = start.api.get(f"/v1/tenants/{start.slug}/endpoints").json()["items"]
    assert [(each["mac"], each["name"]) for each in listed] == [(_MAC, "Printer")]
    again = start.post("device", mac=_MAC)
    assert (again.status_code, "already" in again.text) == (409, True)
    assert start.post("device", mac="00:00:5e:00:53:78").status_code == 200
    assert "trial is limited to 2 devices" in start.post("device", mac="00:00:5e:00:53:79").text
    assert start.api.post(f"{start.path}/device", data={"mac": _MAC}).status_code == 403


def test_link_prefills_the_address(start):
    start.post("self-test")
    shown = start.api.get(start.path, params={"mac": '"><b>'})
    assert 'value="&#34;&gt;&lt;b&gt;"' in shown.text
    # Typed input would be lost.
    assert "refresh" not in shown.headers


def test_configuration_includes_the_secret(start):
    shown = start.post("secret", snippet="aruba-cx")
    secret = re.search("shared secret: <code>([^<]+)</code>", shown.text)
    assert secret
    assert f"key plaintext {secret[1]}" in shown.text
    assert start.post("secret", snippet="nothing").status_code == 422


def test_token_has_its_creator_permissions(start, api):
    text = re.search(r"ADMIT_API_TOKEN=(admit_\S+)", start.post("token").text)
    assert text
    assert text[1] not in api.get(start.path).text
    (listed,) = api.get(f"/v1/tenants/{start.slug}/tokens").json()["items"]
    assert listed["maker"] == "person:ann@acme.example"
    del api.headers["Cookie"]
    api.cookies.clear()
    bearer = {"Authorization": f"Bearer {text[1]}"}
    assert api.get(f"/v1/tenants/{start.slug}", headers=bearer).status_code == 200
    assert api.get("/v1/cells", headers=bearer).status_code == 403


def test_read_only_user_sees_no_forms(start, platform_session):
    with platform_session() as session:
        session.execute(update(Membership).values(role="auditor"))
    shown = start.api.get(start.path).text
    assert re.findall('action="([^"]+)"', shown) == ["/sign-out"]
    for form in ("device", "token", "secret", "self-test"):
        assert start.post(form, mac=_MAC).status_code == 403


def test_sign_in_page_links_to_the_alternatives(api, database, tmp_path, offering):
    assert {"/new-password", "/sign-up"} <= set(re.findall('href="([^"]+)"', api.get("/sign-in").text))
    without = settings_of_public(database, tmp_path, ADMIT_TRIALS="no", ADMIT_PORTAL_URL=offering.portal_url)
    with serve_app(create_app(without)) as other:
        shown = other.get("/sign-in").text
        assert re.findall('href="([^"]+)"', shown) == ["/new-password"]
        assert re.findall('action="([^"]+)"', shown) == ["/sign-in", "/sign-in/company"]


def test_end_of_a_trial_is_shown(start, keeper, platform_session, worker_engine):
    assert "This trial ends on" in start.api.get(start.path).text
    with platform_session() as session:
        tenant_id = tenants.require_by_slug(session, slug=start.slug).id
        ends, kept = session.execute(select(Trial.ends_at, Trial.purged_at)).one()
    lifecycle.process_trials(keeper, now=ends, engine=worker_engine)
    shown = start.api.get(start.path).text
    for told in ("This trial has ended", f"{ends:%Y-%m-%d}", f"{kept:%Y-%m-%d}", f"trial convert {start.slug}"):
        assert told in shown
    with platform_session() as session:
        lifecycle.convert_trial(session, keeper.context, actor=ACTOR, tenant_id=tenant_id)
    assert "trial" not in re.sub("<[^>]*>", "", start.api.get(start.path).text)


def test_places_have_pages(start, monkeypatch, app_engine, platform_session):
    with platform_session() as session:
        msp_id = msps.require_by_slug(session, slug=TRIAL_MSP_SLUG).id
        annex = tenants.create_tenant(session, actor=ACTOR, slug="annex", msp_id=msp_id)
    with session_scope(TenantScope(annex.id), engine=app_engine) as session:
        held, owner = permissions_at(PermissionLevel.TENANT), Owner(tenant_id=annex.id)
        members.create_member(
            session, actor=ACTOR, held=held, owner=owner, email=ANN["email"], role="auditor", has_come=True
        )
    monkeypatch.setattr(sign_in_pages, "_MAX_PLACES", 1)
    path, found = "/", []
    while path:
        shown = start.api.get(path).text
        found += re.findall('href="/start/([^"]+)"', shown)
        path = (re.findall(r'href="(/\?after=[^"]+)"', shown) or [""])[0]
    assert sorted(found) == sorted({start.slug, "annex"})


def test_decisions_have_advice():
    common = {"at": utc_now() - timedelta(minutes=1), "nas_port": "", "method": "mab", "mac": "00005e005377"}
    rejected = AuthLog(**common, identity="<i>", permitted=False, reason="unknown-mac")
    blocked = AuthLog(**common, identity="", permitted=False, reason="endpoint-blocked")
    admitted = AuthLog(**common, identity="", permitted=True, reason="rule-permitted")
    rows = (rejected, blocked, admitted)
    found = [LoggedDecision(row, nas="sw<1>", site="", certificate="", outer_user="") for row in rows]
    shown = tenant_pages.render_tenant(
        tenant_pages.TenantPageInput(
            server=RadiusServer(address="192.0.2.1", auth_port=1, acct_port=2, secret="", text="")
        ),
        slug="acme",
        name="Acme",
        status=200,
        state="active",
        trial=None,
        test=None,
        decisions=found,
        csrf_token="",
        held=frozenset({Permission.ENDPOINT_MANAGE}),
        snippets=(),
        api_url="https://admit.example",
    ).body.decode()
    assert "&lt;i&gt; at sw&lt;1&gt;" in shown
    assert "rejected: Unknown device" in shown
    assert "If the device should be admitted, unblock the endpoint.</span>" in shown
    assert 'href="/start/acme?mac=00:00:5e:00:53:77#device"' in shown
    assert "00:00:5e:00:53:77 at sw&lt;1&gt;</td>\n<td>admitted: Admitted by a rule" in shown


def test_required_second_factor_is_added_on_the_page(start, platform_session):
    with platform_session() as session:
        owner = Owner(tenant_id=TenantId(tenants.require_by_slug(session, slug=start.slug).id))
        rules.update_rule(session, actor=ACTOR, owner=owner, two_factors=True, by=None)
    refused = start.api.get(start.path)
    assert (refused.status_code, re.findall('<a href="([^"]+)"', refused.text)) == (403, [_FACTOR, "/"])
    assert "You have no second factor yet" in start.api.get(_FACTOR).text

    begun = start.post_to(_FACTOR)
    secret = re.search("<code>([A-Z2-7 ]+)</code>", begun.text)
    assert secret
    key = secret[1].replace(" ", "")
    assert f"secret={key}" in begun.text
    wrong = start.post_to(f"{_FACTOR}/code", code="abc")
    assert (wrong.status_code, "Wrong code." in wrong.text, key in wrong.text) == (401, True, False)
    assert "You have no second factor yet" in start.api.get(_FACTOR).text

    added = start.post_to(f"{_FACTOR}/code", code=code_of(key))
    codes = re.search("<pre>([^<]+)</pre>", added.text)
    assert (added.status_code, codes and len(codes[1].split())) == (200, 10)
    assert start.api.get(start.path).status_code == 200
    shown = start.api.get(_FACTOR).text
    assert ("an authenticator app, recovery codes" in shown, f'action="{_FACTOR}"' in shown) == (True, False)
    asked = start.api.post("/sign-in", data={"email": ANN["email"], "password": PASSWORD})
    assert 'action="/sign-in/totp"' in asked.text


def test_old_sign_in_must_be_renewed_first(start, platform_session):
    with platform_session() as session:
        session.execute(update(SignIn).values(confirmed_at=SignIn.confirmed_at - timedelta(minutes=11)))
    refused = start.post_to(_FACTOR)
    assert (refused.status_code, '<a href="/sign-in">' in refused.text) == (403, True)


def test_cross_site_page_cannot_add_an_app(start):
    for path in (_FACTOR, f"{_FACTOR}/code"):
        assert start.api.post(path, data={"csrf_token": "x"}).status_code == 403
    assert "You have no second factor yet" in start.api.get(_FACTOR).text
