"""The lifetime of a sign-in, and checks of browser requests that change data."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from api.main import create_app
from tests.api.app_server import serve_app, settings_of_public
from tests.sign_in.authenticator import Authenticator
from tests.sign_in.conftest import EMAIL, NEW_PASSWORD, PASSWORD, REFUSED, code_of


@pytest.mark.parametrize(
    ("column", "back", "is_over"),
    [
        ("last_seen_at", "11 hours 59 minutes", False),
        ("last_seen_at", "12 hours", True),
        ("expires_at", "6 days 23 hours", False),
        ("expires_at", "7 days", True),
    ],
)
def test_sign_in_expires(mine, sql, column, back, is_over):
    sql(f"UPDATE sign_ins SET {column} = {column} - CAST(:by AS interval)", by=back)
    assert mine.ask("GET", "/me").status_code == (401 if is_over else 200)


def test_browsers_are_listed_and_signed_out(browser, mine, make_person):
    other, third = browser(), browser()
    for each in (other, third):
        each.sign_in()
    listed = mine.good("GET", "/me/sessions")["items"]
    assert [each["here"] for each in listed] == [False, False, True]
    make_person("eve@example.com")
    eve = browser()
    eve.sign_in("eve@example.com")
    assert eve.refused("DELETE", f"/me/sessions/{listed[0]['id']}") == (404, "sign-in-not-found")
    mine.good("DELETE", f"/me/sessions/{listed[0]['id']}")
    assert third.has_ended()
    mine.good("DELETE", "/me/sessions")
    assert other.has_ended()
    assert mine.good("GET", "/me/sessions")["items"][0]["here"]


def test_new_sign_in_replaces_the_session_secret(browser, ann):
    mine = browser()
    mine.cookies["admit"] = f"admitsession_{'a' * 16}_{'b' * 26}"
    mine.sign_in()
    first = dict(mine.cookies)
    assert first["admit"] != f"admitsession_{'a' * 16}_{'b' * 26}"
    mine.sign_in()
    assert mine.cookies["admit"] != first["admit"]
    assert mine.good("GET", "/me")
    mine.cookies = first
    assert mine.has_ended()


def test_new_password_ends_all_other_browsers(browser, mine):
    other = browser()
    other.sign_in()
    mine.good("PUT", "/me/password", {"password": NEW_PASSWORD})
    assert other.has_ended()
    assert mine.good("GET", "/me")
    assert other.refused("POST", "/sign-in", {"email": EMAIL, "password": PASSWORD}) == REFUSED


def test_account_changes_need_a_recent_confirmation(mine, sql):
    key = Authenticator()
    mine.add_passkey(key)
    mine.good("POST", "/sign-in/passkey", mine.use_passkey(key))
    for method, path, body in (
        ("PUT", "/me/password", {"password": NEW_PASSWORD}),
        ("POST", "/me/totp", None),
        ("POST", "/me/passkeys/options", None),
        ("POST", "/me/recovery-codes", None),
        ("DELETE", "/me/totp", None),
    ):
        sql("UPDATE sign_ins SET confirmed_at = confirmed_at - interval '11 minutes'")
        assert mine.refused(method, path, body) == (403, "confirmation-needed")
        assert mine.refused("POST", "/me/confirmation", {"password": "wrong"}) == REFUSED
        mine.good("POST", "/me/confirmation", {"password": PASSWORD})
        assert mine.ask(method, path, body).status_code < 300
        if path == "/me/password":
            mine.good("PUT", path, {"password": PASSWORD})


def test_adding_a_second_factor_ends_pending_sign_ins(browser, mine):
    other = browser()
    other.sign_in()
    mine.add_totp()
    assert other.has_ended()
    assert mine.good("GET", "/me")["has_two_factors"]


def test_concurrent_use_of_one_code_counts_once(browser, mine):
    key = Authenticator(counts=False)
    mine.add_passkey(key)
    secret = mine.add_totp()
    [code] = mine.good("POST", "/me/recovery-codes")["codes"][:1]
    # Each request comes from a known browser, which has its own counter of guesses.
    needed = [mine.sign_in()["challenge"] for _ in range(4)]
    passkey = mine.use_passkey(key)
    for path, bodies in (
        ("totp", [{"challenge": each, "code": code_of(secret)} for each in needed]),
        ("recovery-code", [{"challenge": each, "code": code} for each in needed]),
        ("passkey", [passkey] * 4),
    ):
        browsers = [browser() for _ in bodies]
        with ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(lambda each, body: each.ask("POST", f"/sign-in/{path}", body).status_code, browsers, bodies)  # noqa: B023
            )
        # 429: too many guesses in sequence.
        assert found.count(200) == 1, (path, found)
        assert {200, 401, 429} >= set(found), path


def test_cross_site_requests_change_nothing(mine):
    for headers, code in (
        ({"Sec-Fetch-Site": "cross-site"}, "cross-site"),
        ({"Sec-Fetch-Site": "same-site"}, "cross-site"),
        ({"Admit-CSRF": ""}, "csrf-token-missing"),
        ({"Admit-CSRF": "0" * 64}, "csrf-token-missing"),
    ):
        assert mine.refused("POST", "/sign-out", **headers) == (403, code)
    assert mine.good("GET", "/me")


def test_cross_site_requests_sign_nobody_in(browser, ann):
    body = {"email": EMAIL, "password": PASSWORD}
    mine = browser()
    mine.headers = {}
    for headers in ({"Origin": "https://elsewhere.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert mine.refused("POST", "/sign-in", body, **headers) == (403, "cross-site")
    for headers in ({}, {"Origin": "http://localhost:8460"}, {"Sec-Fetch-Site": "same-origin", "Origin": "http://x"}):
        assert mine.ask("POST", "/sign-in", body, **headers).status_code == 200


@pytest.mark.parametrize(
    ("url", "name", "attributes"),
    [
        ("https://admit.example.com", "__Host-admit", {"httponly", "samesite=lax", "path=/", "secure"}),
        ("http://localhost:8460", "admit", {"httponly", "samesite=lax", "path=/"}),
    ],
)
def test_cookie_is_bound_to_this_host(database, tmp_path, ann, url, name, attributes):
    with serve_app(create_app(settings_of_public(database, tmp_path, ADMIT_PORTAL_URL=url))) as client:
        answer = client.post("/v1/sign-in", json={"email": EMAIL, "password": PASSWORD})
    assert answer.headers["cache-control"] == "no-store"
    for line, cookie in zip(answer.headers.get_list("set-cookie"), (name, f"{name}-device"), strict=True):
        first, *rest = (part.strip() for part in line.split(";"))
        assert first.startswith(f"{cookie}=")
        assert attributes == {part.lower() for part in rest if not part.lower().startswith(("max-age", "expires"))}
