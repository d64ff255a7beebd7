"""`/second-factor`: a user who must have two factors adds an authenticator app, with forms only."""

import re
from datetime import timedelta

import httpx
from sqlalchemy import Engine, update

from nac.accounts.sign_in import rules
from nac.core.access.grants import Owner
from nac.kit.db import PlatformScope, session_scope
from nac.kit.ids import TenantId
from nac.models import SignIn
from nac.tenancy.tenants import service as tenants
from tests.factories.tenancy import ACTOR
from tests.sign_in.conftest import code_of
from tests.trials.conftest import ANN, PASSWORD
from tests.trials.test_start_page import Start, start

__all__ = ["start"]

_PAGE = "/second-factor"


def _post(start: Start, path: str, **given: str) -> httpx.Response:
    return start.api.post(path, data=given | {"csrf_token": start.csrf_token})


def test_required_second_factor_is_added_on_the_page(start: Start, app_engine: Engine) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        owner = Owner(tenant_id=TenantId(tenants.require_by_slug(session, slug=start.slug).id))
        rules.update_rule(session, actor=ACTOR, owner=owner, two_factors=True, by=None)
    refused = start.api.get(start.path)
    assert (refused.status_code, re.findall('<a href="([^"]+)"', refused.text)) == (403, [_PAGE, "/"])
    assert "You have no second factor yet" in start.api.get(_PAGE).text

    begun = _post(start, _PAGE)
    secret = re.search("<code>([A-Z2-7 ]+)</code>", begun.text)
    assert secret
    key = secret[1].replace(" ", "")
    assert f"secret={key}" in begun.text
    wrong = _post(start, f"{_PAGE}/code", code="abc")
    assert (wrong.status_code, "Wrong code." in wrong.text, key in wrong.text) == (401, True, False)
    assert "You have no second factor yet" in start.api.get(_PAGE).text

    added = _post(start, f"{_PAGE}/code", code=code_of(key))
    codes = re.search("<pre>([^<]+)</pre>", added.text)
    assert (added.status_code, codes and len(codes[1].split())) == (200, 10)
    assert start.api.get(start.path).status_code == 200
    shown = start.api.get(_PAGE).text
    assert ("an authenticator app, recovery codes" in shown, f'action="{_PAGE}"' in shown) == (True, False)
    asked = start.api.post("/sign-in", data={"email": ANN["email"], "password": PASSWORD})
    assert 'action="/sign-in/totp"' in asked.text


def test_old_sign_in_must_be_renewed_first(start: Start, app_engine: Engine) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        session.execute(update(SignIn).values(confirmed_at=SignIn.confirmed_at - timedelta(minutes=11)))
    refused = _post(start, _PAGE)
    assert (refused.status_code, '<a href="/sign-in">' in refused.text) == (403, True)


def test_cross_site_page_cannot_add_an_app(start: Start) -> None:
    for path in (_PAGE, f"{_PAGE}/code"):
        assert start.api.post(path, data={"csrf_token": "x"}).status_code == 403
    assert "You have no second factor yet" in start.api.get(_PAGE).text
