"""The page that leads from the short name of an MSP or a tenant to its single sign-on."""

import re

import httpx
import pytest

from tests.sign_ons.conftest import Hostile, SetUp


@pytest.mark.parametrize("name", ["acme", " ACME "])
def test_name_leads_to_the_provider(client: httpx.Client, set_up: SetUp, hostile: Hostile, name: str) -> None:
    sign_on = set_up("/msps/acme", hostile.issuer)
    shown = client.get("/sign-in/company", params={"name": name})
    begin = f"/v1/sign-on/{sign_on['id']}/begin"
    assert (shown.status_code, re.findall('href="([^"]+)"', shown.text)) == (200, [begin])
    # To the provider at once: the page was this origin's own.
    on = client.get(begin, headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=False)
    assert (on.status_code, on.headers["location"].startswith(hostile.issuer)) == (303, True)


def test_who_has_none_is_told_as_who_is_not_there(client: httpx.Client, set_up: SetUp, hostile: Hostile) -> None:
    set_up("/msps/acme", hostile.issuer)
    told = set()
    for name in ("bolt", "alpha", "nobody", "", "x" * 300, '"><script>'):
        shown = client.get("/sign-in/company", params={"name": name})
        assert "<script>" not in shown.text.replace('<script src="/sign-in/passkey.js">', ""), name
        told.add((shown.status_code, *re.findall('role="alert">([^<]+)', shown.text)))
    assert len(told) == 1
    assert next(iter(told))[0] == 404
