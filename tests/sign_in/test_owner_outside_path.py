"""Sign-in rules and visibility of an owner that the path of the request does not contain."""

from urllib.parse import urlencode

from sqlalchemy import select, update

from nac.accounts.members import service as members
from nac.accounts.sign_in import rules
from nac.kit.db import PersonScope, session_scope
from nac.kit.permissions import PermissionLevel, permissions_at
from nac.models import Msp
from nac.onboarding import msp_lifecycle
from nac.onboarding.templates import service as templates
from tests.accounts.conftest import PLATFORM, whole
from tests.factories.tenancy import ACTOR
from tests.sign_in.conftest import EMAIL, Browser


def test_two_factors_are_required_for_an_msp_in_the_body(browser, ann, field, within):
    with within(field.acme) as session:
        members.create_member(session, **whole(field.acme), email=EMAIL, role="msp-admin")
        rules.update_rule(session, actor=ACTOR, owner=field.acme, two_factors=True, by=None)
    mine: Browser = browser()
    mine.sign_in()
    needed = (403, "second-factor-needed")
    assert mine.refused("POST", "/msps/acme/tenants", {"slug": "new"}) == needed
    assert mine.refused("POST", "/tenants", {"slug": "new", "msp": "acme"}) == needed
    assert mine.refused("POST", "/tenants", {"slug": "new"}) == needed


def test_partial_msp_member_sees_no_other_tenants_by_template(browser, ann, field, within):
    assert field.acme.msp_id is not None
    whose = {"actor": ACTOR, "msp_id": field.acme.msp_id, "slug": "school"}
    with within(field.acme) as session:
        members.create_member(session, **whole(field.acme), email=EMAIL, role="msp-technician", tenants=["alpha"])
        templates.create_template(session, **whose, name="School")
        for slug in ("alpha", "bravo"):
            templates.follow_template(
                session, **whose, tenant=slug, overrides=[], held=lambda _: permissions_at(PermissionLevel.TENANT)
            )
    mine: Browser = browser()
    mine.sign_in()
    for path in ("tenants", "tenants?drift=true"):
        found = mine.good("GET", f"/msps/acme/templates/school/{path}")
        assert [each["tenant"] for each in found["items"]] == ["alpha"]


def test_tenants_of_all_grants_are_one_list(browser, ann, field, within):
    """The grants are for chosen tenants of one MSP, for all of another, and for a tenant as its own member.

    Suspended MSPs hide their tenants.
    """
    mine: Browser = browser()
    mine.sign_in()

    def seen(**query: str) -> list[str]:
        found = mine.good("GET", f"/tenants?{urlencode({'sort': 'slug'} | query)}")
        return [each["slug"] for each in found["items"]]

    assert seen() == []
    with within(field.acme) as session:
        members.create_member(session, **whole(field.acme), email=EMAIL, role="msp-technician", tenants=["alpha"])
    assert seen() == ["alpha"]
    with within(field.bravo) as session:
        members.create_member(session, **whole(field.bravo), email=EMAIL, role="auditor")
    with within(field.bolt) as session:
        members.create_member(session, **whole(field.bolt), email=EMAIL, role="msp-admin")
    assert seen() == ["alpha", "bravo", "foreign"]
    assert seen(sort="-slug", limit="2") == ["foreign", "bravo"]
    assert (seen(text="a"), seen(msp="bolt"), seen(msp="nothing")) == (["alpha", "bravo"], ["foreign"], [])
    assert seen(status="suspended") == []
    with within(PLATFORM) as session:
        msp_lifecycle.suspend_msp(session, actor=ACTOR, msp_id=field.acme.msp_id)
    # The MSP granted the first entry, and the tenant itself granted the other entry.
    assert seen() == ["bravo", "foreign"]
    with within(field.bolt) as session:
        rules.update_rule(session, actor=ACTOR, owner=field.bolt, two_factors=True, by=None)
    assert seen() == ["bravo"]


def test_tokens_list_the_tenants_of_their_owner(client, field, make_token):
    def seen(*given) -> list[str]:
        headers = {"Authorization": f"Bearer {make_token(*given)}"}
        return [each["slug"] for each in client.get("/v1/tenants", headers=headers).json()["items"]]

    assert seen(PLATFORM) == ["alpha", "bravo", "foreign"]
    assert seen(field.acme) == ["alpha", "bravo"]
    assert seen(field.foreign) == ["foreign"]
    for owner in (PLATFORM, field.acme, field.foreign):
        assert seen(owner, "site.read") == []


def test_grants_include_the_slugs_of_their_places(client, browser, ann, field, within, make_token):
    def summarise(grants: list[dict]) -> list[tuple]:
        return [(each["on"], each["msp"], each["tenant"], each["tenant_slugs"]) for each in grants]

    for owner, wanted in (
        (PLATFORM, ("platform", None, None, None)),
        (field.acme, ("msp", "acme", None, None)),
        (field.foreign, ("tenant", None, "foreign", None)),
    ):
        headers = {"Authorization": f"Bearer {make_token(owner)}"}
        assert summarise(client.get("/v1/grants", headers=headers).json()["grants"]) == [wanted]
        refused = client.get("/v1/me", headers=headers).json()
        assert (refused["code"], "listMyGrants" in refused["remedy"]) == ("no-person", True)
    mine: Browser = browser()
    mine.sign_in()
    assert mine.good("GET", "/grants")["grants"] == []
    with within(field.acme) as session:
        members.create_member(session, **whole(field.acme), email=EMAIL, role="msp-technician", tenants=["alpha"])
    with within(field.foreign) as session:
        members.create_member(session, **whole(field.foreign), email=EMAIL, role="auditor")
    found = summarise(mine.good("GET", "/grants")["grants"])
    assert sorted(found, key=str) == [("msp", "acme", None, ["alpha"]), ("tenant", None, "foreign", None)]


def test_user_sees_only_msps_of_their_memberships(ann, field, within, app_engine):
    for owner in (field.bravo, field.bolt):
        with within(owner) as session:
            members.create_member(session, **whole(owner), email=EMAIL, role="auditor")
    with session_scope(PersonScope(ann.id), engine=app_engine) as session:
        assert session.scalars(select(Msp.slug)).all() == ["bolt"]
        # The MSP is visible but read-only, as are the rows of its tenants.
        session.execute(update(Msp).values(name="x"))
    with within(field.bolt) as session:
        assert session.scalars(select(Msp.name)).all() != ["x"]
