"""A browser gets an error page with a sentence and a link. A program gets a problem document."""

import re
from urllib.parse import urljoin

import httpx

from api.main import create_app
from api.start import sign_in_routes as start_routes
from nac.accounts.sign_in.secret_texts import LinkText
from tests.api.app_server import serve_app, settings_of_public

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
    monkeypatch.setattr(start_routes, "find_company_sign_on", _wrong)
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
