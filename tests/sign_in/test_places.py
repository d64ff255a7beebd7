"""What a place asks of people, and shows of itself, where the path of a request does not name it."""

from nac.members import service as members
from nac.models import Person
from nac.sign_in import rules
from nac.templates import service as templates
from tests.accounts.conftest import Field, Within, whole
from tests.factories.tenancy import ACTOR
from tests.sign_in.conftest import EMAIL, Browser


def test_two_factors_are_asked_for_where_the_body_names_the_msp(
    browser, ann: Person, field: Field, within: Within
) -> None:
    with within(field.acme) as session:
        members.add_member(session, **whole(field.acme), email=EMAIL, role="msp-admin")
        rules.change(session, actor=ACTOR, owner=field.acme, two_factors=True, by=None)
    mine: Browser = browser()
    mine.sign_in()
    needed = (403, "second-factor-needed")
    assert mine.refused("POST", "/msps/acme/tenants", {"slug": "new"}) == needed
    assert mine.refused("POST", "/tenants", {"slug": "new", "msp": "acme"}) == needed
    assert mine.refused("POST", "/tenants", {"slug": "new"}) == needed


def test_who_was_given_some_tenants_sees_no_others_by_a_template(
    browser, ann: Person, field: Field, within: Within
) -> None:
    assert field.acme.msp_id is not None
    whose = {"actor": ACTOR, "msp_id": field.acme.msp_id, "slug": "school"}
    with within(field.acme) as session:
        members.add_member(session, **whole(field.acme), email=EMAIL, role="msp-technician", tenants=["alpha"])
        templates.create_template(session, **whose, name="School")
        for slug in ("alpha", "bravo"):
            templates.follow(session, **whose, tenant=slug, overrides=[])
    mine: Browser = browser()
    mine.sign_in()
    for path in ("tenants", "tenants?drift=true"):
        found = mine.good("GET", f"/msps/acme/templates/school/{path}")
        assert [each["tenant"] for each in found["items"]] == ["alpha"]
