"""The sign-up pages in a browser without scripts."""

import re

from tests.trials.conftest import ANN, PASSWORD


def test_pages_lead_to_a_tenant(api, mails):
    form = api.get("/sign-up").text
    assert 'action="/sign-up"' in form
    assert '<a href="/sign-in">' in form
    asked = api.post("/sign-up", data=ANN)
    assert asked.status_code == 202
    shown = api.get(mails.link())
    assert "Acme &lt;School&gt; Söhne" in shown.text
    unlike = api.post(mails.link(), data={"password": PASSWORD, "again": "x", "name": "<b>"})
    assert unlike.status_code == 422
    assert "do not match" in unlike.text
    assert 'value="&lt;b&gt;"' in unlike.text
    ready = api.post(mails.link(), data={"password": PASSWORD, "again": PASSWORD, "name": "Ann"})
    assert ready.status_code == 303, ready.text
    # Browsers send the cookie only over TLS.
    api.headers["Cookie"] = f"__Host-admit={api.cookies['__Host-admit']}"
    start = api.get(ready.headers["location"])
    assert "The self-test sends requests to your ports" in start.text
    assert start.headers["refresh"] == "3"
    assert "<h1>Acme &lt;School&gt; Söhne</h1>" in start.text
    assert "<School>" not in start.text
    csrf_token = re.search('name="csrf_token" value="([^"]+)"', start.text)[1]
    secret = api.post(f"{ready.headers['location']}/secret", data={"csrf_token": csrf_token})
    assert "shared secret: <code>" in secret.text
    assert api.post(f"{ready.headers['location']}/secret", data={"csrf_token": "x"}).status_code == 403
    assert ready.headers["location"] in api.get("/").text
    api.post("/sign-out", data={"csrf_token": csrf_token})
    assert api.get("/").headers["location"] == "/sign-in"
    given = {"email": ANN["email"], "password": PASSWORD}
    assert "Check the e-mail address" in api.post("/sign-in", data=given | {"password": "x"}).text
    assert api.post("/sign-in", data=given).headers["location"] == "/"
    del api.headers["Cookie"]
    assert api.post(mails.link(), data={"password": PASSWORD, "again": PASSWORD}).status_code == 410


def test_cross_site_page_cannot_sign_in_to_its_trial(api, mails):
    api.post("/sign-up", data=ANN)
    form = {"password": PASSWORD, "again": PASSWORD}
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}):
        answer = api.post(mails.link(), data=form, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    assert api.post(mails.link(), data=form, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303


def test_form_keeps_its_input_after_an_error(api):
    answer = api.post("/sign-up", data={"email": '"><script>', "organisation": "Acme"})
    assert answer.status_code == 422
    assert "<script>" not in answer.text
    assert "Invalid e-mail address" in answer.text
    assert 'value="Acme"' in answer.text


def test_pages_have_no_script_and_are_not_cached(api):
    headers = api.get("/sign-up").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")


def test_sign_in_page_has_one_own_script(api):
    shown = api.get("/sign-in")
    policy = shown.headers["content-security-policy"]
    assert ("default-src 'none'" in policy, "script-src 'self'" in policy, "unsafe" in policy) == (True, True, False)
    assert re.findall("<script[^>]*>[^<]*", shown.text) == ['<script src="/sign-in/passkey.js">']
    script = api.get("/sign-in/passkey.js")
    assert (script.status_code, script.headers["content-type"]) == (200, "text/javascript; charset=utf-8")


def test_invalid_form_is_rejected(api):
    for content in (b"\xff" * 100, b"email=" + b"a" * 10_000):
        answer = api.post("/sign-up", content=content, headers={"Content-Type": "application/x-www-form-urlencoded"})
        assert answer.status_code in (413, 422), answer.text
