"""The page that redirects from the slug of an MSP or tenant to its single sign-on."""

import re

import httpx
import pytest

from nac.core.access.grants import Owner
from nac.kit.ids import MspId, TenantId
from tests.factories.tenancy import Platform, make_tenant
from tests.sign_ons.conftest import SECRET, HostileProvider, SetUp


@pytest.mark.parametrize("name", ["acme", " ACME "])
def test_slug_redirects_to_the_provider(
    client: httpx.Client, set_up: SetUp, hostile: HostileProvider, name: str
) -> None:
    sign_on = set_up("/msps/acme", hostile.issuer)
    shown = client.get("/sign-in/company", params={"name": name})
    begin = f"/v1/sign-on/{sign_on['id']}/begin"
    assert (shown.status_code, re.findall('href="([^"]+)"', shown.text)) == (200, [begin])
    # The redirect goes directly to the provider, because this origin served the page.
    on = client.get(begin, headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=False)
    assert (on.status_code, on.headers["location"].startswith(hostile.issuer)) == (303, True)


def test_owner_without_sso_looks_like_an_unknown_one(
    client: httpx.Client, set_up: SetUp, hostile: HostileProvider
) -> None:
    set_up("/msps/acme", hostile.issuer)
    told = set()
    for name in ("bolt", "alpha", "nobody", "", "x" * 300, '"><script>'):
        shown = client.get("/sign-in/company", params={"name": name})
        assert "<script>" not in shown.text.replace('<script src="/sign-in/passkey.js">', ""), name
        told.add((shown.status_code, *re.findall('role="alert">([^<]+)', shown.text)))
    assert len(told) == 1
    assert next(iter(told))[0] == 404


@pytest.mark.parametrize("path", ["/sign-in/company?name=%00", "/?after=%00", "/sign-in?x=%00", "/start/%00"])
def test_invalid_slug_gets_an_error_page(client: httpx.Client, path: str) -> None:
    shown = client.get(path)
    assert (shown.status_code, shown.headers["content-type"]) == (422, "text/html; charset=utf-8")
    assert "The text contains an invalid character." in shown.text or "NUL" in shown.text
    assert client.get("/v1/me?x=%00").headers["content-type"] == "application/problem+json"


def test_tenant_is_found_if_the_same_named_msp_has_no_sso(
    client, app_engine, field, make_token, hostile, certificates
) -> None:
    assert field.acme.msp_id is not None
    tenant = make_tenant(app_engine, Platform(MspId(field.acme.msp_id), 0), "bolt")
    body = {
        "issuer": hostile.issuer,
        "client_id": "admit",
        "client_secret": SECRET,
        "ca_certificate": certificates.authority,
    }
    headers = {"Authorization": f"Bearer {make_token(Owner(tenant_id=TenantId(tenant.id)))}"}
    made = client.put("/v1/tenants/bolt/sign-on", json=body, headers=headers)
    assert made.status_code == 200, made.text
    shown = client.get("/sign-in/company", params={"name": "bolt"})
    assert (shown.status_code, f"/v1/sign-on/{made.json()['id']}/begin" in shown.text) == (200, True)


@pytest.mark.parametrize("method", ["totp", "passkey", "nothing"])
def test_rejected_second_factor_without_its_form_is_reported(client: httpx.Client, method: str) -> None:
    headers = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    for given in ({}, {"challenge": "x", "code": "1"}):
        shown = client.post(f"/sign-in/{method}", data=given, headers=headers)
        assert shown.status_code >= 400
        assert re.findall('role="alert">([^<]+)', shown.text), shown.text
