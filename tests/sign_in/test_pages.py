"""Sign-in pages without scripts."""

import re

import httpx

from tests.sign_in.conftest import EMAIL, PASSWORD
from tests.sign_in.test_sign_in import with_totp


def _hidden(shown: httpx.Response) -> dict[str, str]:
    return dict(re.findall('type="hidden" name="([^"]+)" value="([^"]*)"', shown.text))


def test_second_step_offers_all_methods_after_an_error(client, browser, ann):
    mine = browser()
    mine.sign_in()
    with_totp(mine)
    code = mine.good("POST", "/me/recovery-codes")["codes"][0]
    asked = client.post("/sign-in", data={"email": EMAIL, "password": PASSWORD})
    refused = client.post("/sign-in/totp", data=_hidden(asked) | {"code": "000000"})
    assert (asked.status_code, refused.status_code) == (200, 401)
    for shown, alerts, anew in ((asked, 0, 0), (refused, 1, 1)):
        counts = [shown.text.count(text) for text in ("Confirm with your second factor", "autofocus", 'role="alert"')]
        assert counts == [1, 1, alerts]
        assert re.findall('action="([^"]+)"', shown.text) == ["/sign-in/totp", "/sign-in/recovery-code"]
        assert shown.text.count('<a href="/sign-in">') == anew
    assert client.post("/sign-in/recovery-code", data=_hidden(refused) | {"code": code}).status_code == 303


def test_new_password_page_links_to_sign_in(client):
    assert '<a href="/sign-in">' in client.get("/new-password").text
