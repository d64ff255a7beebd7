"""The sign-up pages in a browser without scripts, and error pages with a sentence and a link."""

import re
from urllib.parse import urljoin

import httpx

from api import portal
from api.main import create_app
from api.start import sign_in_pages
from nac.accounts.sign_in.secret_texts import LinkText
from tests.api.app_server import serve_app, settings_of_public
from tests.trials.conftest import ANN, PASSWORD


def test_pages_lead_to_a_tenant(api, mails, monkeypatch):
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
    with monkeypatch.context() as patch:
        patch.setattr(portal, "_files", lambda: portal.PortalFiles("", {}))
        assert api.get("/").headers["location"] == "/portal/"
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


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def page_parts(answer: httpx.Response) -> tuple[int, str, list[str]]:
    """The status, the sentence and the link of an error page."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8", answer.text
    assert answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    (sentence,) = re.findall(r"<p>([^<]+)</p>", answer.text)
    return answer.status_code, sentence, re.findall(r'<a href="([^"]+)"', answer.text)


def test_unknown_page_links_onward(start):
    for path, status, ways in (
        ("/sign-up/abc", 410, ["/sign-up"]),
        ("/new-password/abc", 410, ["/new-password"]),
        ("/start/nope", 404, ["/"]),
        ("/start/alpha/nope", 404, ["/"]),
        ("/nowhere", 404, ["/"]),
        ("/sign-in/totp", 405, ["/"]),
    ):
        answer = start.api.get(path, headers=BROWSER)
        found, sentence, to = page_parts(answer)
        assert (found, to) == (status, ways)
        assert sentence.endswith(".")
        assert answer.headers.get("allow") == ("POST" if status == 405 else None)


def test_programs_and_the_api_get_problems(start):
    with httpx.Client(transport=start.api._transport, base_url="http://api") as nobody:
        for path in ("/v1/nowhere", "/v1/me", "/v1/sign-in", "/openapi.json/x"):
            assert nobody.get(path, headers=BROWSER).headers["content-type"] == "application/problem+json"
        assert nobody.get("/start/alpha/nope").headers["content-type"] == "application/problem+json"


def _wrong(*args: object, **kwargs: object) -> object:
    raise RuntimeError("password=hunter2")


def test_internal_error_page_reveals_nothing(database, tmp_path, monkeypatch):
    monkeypatch.setattr(sign_in_pages, "find_company_sign_on", _wrong)
    with serve_app(create_app(settings_of_public(database, tmp_path))) as client:
        answer = client.get("/sign-in/company?name=a")
    status, _, ways = page_parts(answer)
    assert (status, ways) == (500, ["/sign-in/company?name=a", "/"])
    assert "hunter2" not in answer.text


def test_database_outage_and_rate_limit_are_pages(database, tmp_path):
    nowhere = f"postgresql://admit_app@/admit?host={tmp_path}"
    limits = {"ADMIT_API_REQUESTS_PER_MINUTE": "2"}
    with serve_app(create_app(settings_of_public(database, tmp_path, ADMIT_DATABASE_URL=nowhere, **limits))) as client:
        path = f"/new-password/{LinkText.make().reveal()}"
        away = client.get(path)
        assert page_parts(away)[::2] == (503, [path, "/"])
        assert str(tmp_path) not in away.text
        assert str(tmp_path) not in client.get("/sign-in/company?name=a").text
        much = client.get("/sign-in/company?name=%22%3E&b")
        assert page_parts(much)[::2] == (429, ["/sign-in/company?name=%22%3E&amp;b", "/"])
        assert int(much.headers["retry-after"]) > 0
        assert "requests in a minute" in much.text


def test_retry_link_stays_on_this_site(database, tmp_path):
    limits = {"ADMIT_API_REQUESTS_PER_MINUTE": "1"}
    with serve_app(create_app(settings_of_public(database, tmp_path, **limits))) as client:
        client.get("/nowhere")
        for path in ("//evil.example/", "///evil.example", "/%5Cevil.example/"):
            status, _, ways = page_parts(client.get(f"http://api{path}", headers=BROWSER))
            assert status == 429
            assert not [way for way in ways if urljoin("http://api/", way).split("/")[2] != "api"], ways


def test_error_page_is_sent_only_if_html_is_accepted(api):
    for accept, is_page in (
        ("text/html", True),
        ("Text/HTML;charset=utf-8", True),
        ("application/json, text/html;q=0.1", True),
        ("application/json, text/html; q=0", False),
        ("application/json, text/html;q=0.000", False),
        ("text/htmlx", False),
        ("*/*", False),
    ):
        kind = api.get("/nowhere", headers={"Accept": accept}).headers["content-type"]
        assert kind.startswith("text/html" if is_page else "application/problem+json"), accept


def test_error_page_gives_no_api_instructions(start):
    status, sentence, _ = page_parts(
        start.api.post("/start/alpha/self-test", data={"csrf": "another"}, headers=BROWSER)
    )
    assert status == 403
    assert "/v1/" not in sentence
