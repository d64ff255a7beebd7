"""Errors on the return from a provider. Each has its own code, for a page, a user or a program."""

from urllib.parse import parse_qs, urlsplit

import httpx
from sqlalchemy import text

from nac.accounts.people import service as people
from nac.accounts.sign_in import failure_audit
from nac.kit.db import PlatformScope, session_scope
from nac.kit.outbound.tls import tls_context
from tests.factories.tenancy import ACTOR
from tests.sign_in.conftest import EMAIL
from tests.sign_ons.conftest import MSP, SECRET, at_real_provider, begin, by_hostile, forget_providers, return_to_admit

VERIFIED = {"email": EMAIL, "email_verified": True}


def status_and_code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_each_failed_return_has_its_code(browser, set_up, ann, real_provider, certificates, app_engine):
    sign_on, mine = set_up(MSP, real_provider), browser()

    def real(to: dict, claims: dict[str, object] = VERIFIED) -> str:
        return at_real_provider(begin(mine, to), certificates, claims)

    with httpx.Client(verify=tls_context(certificates.authority), trust_env=False) as there:
        asked = begin(mine, sign_on)
        denied = there.post(asked["at"], data={"sub": "ann-1", "action": "deny"}).headers["location"]
        registered = there.post(
            f"{real_provider}/oauth2/clients",
            json={"redirect_uris": [sign_on["callback_url"]], "token_endpoint_auth_method": "client_secret_basic"},
        ).json()
    # The provider omits the state that RFC 6749 4.1.2.1 requires, so Admit cannot identify the sign-in.
    assert status_and_code(mine.ask("GET", denied.partition("/v1")[2])) == (401, "sign-on-not-begun")
    error = parse_qs(urlsplit(denied).query)["error"][0]
    assert status_and_code(return_to_admit(mine, sign_on, asked["state"], "", error=error)) == (403, "provider-denied")
    for claims, code in (
        ({"email_verified": True}, "email-missing"),
        ({"email": EMAIL, "email_verified": False}, "email-not-verified"),
        ({"email": "nobody@example.com", "email_verified": True}, "no-member-here"),
    ):
        assert status_and_code(mine.ask("GET", real(sign_on, claims))) == (403, code), claims
    # A code that the provider did not issue, and a used code.
    asked = begin(mine, sign_on)
    assert status_and_code(return_to_admit(mine, sign_on, asked["state"], "nonsense")) == (403, "code-refused")
    path = real(sign_on)
    kept = dict(mine.cookies)
    assert mine.ask("GET", path).status_code == 303
    mine.cookies = kept
    assert status_and_code(mine.ask("GET", path)) == (403, "code-refused")
    # Settings that changed before the browser returned, and a wrong client secret.
    path = real(sign_on)
    wrong = set_up(MSP, real_provider, client_id=registered["client_id"])
    assert status_and_code(mine.ask("GET", path)) == (401, "sign-on-changed")
    assert status_and_code(mine.ask("GET", real(wrong))) == (403, "client-refused")
    path = real(set_up(MSP, real_provider))
    with session_scope(PlatformScope(), engine=app_engine) as session:
        person = people.require_by_email(session, email=EMAIL)
        people.set_disabled(session, actor=ACTOR, person_id=person.id, disabled=True)
    assert status_and_code(mine.ask("GET", path)) == (401, "sign-in-refused")
    assert status_and_code(browser().ask("GET", path)) == (401, "sign-on-not-begun")


def test_provider_error_response_is_reported(client, browser, set_up, hostile):
    sign_on, mine = set_up(MSP, hostile.issuer), browser()
    for error, status, code in (
        ("access_denied", 403, "provider-denied"),
        ("login_required", 403, "provider-denied"),
        ("temporarily_unavailable", 503, "provider-unavailable"),
        ("invalid_scope", 403, "client-refused"),
        ("<script>", 403, "provider-denied"),
    ):
        forget_providers()
        state = begin(mine, sign_on)["state"]
        assert status_and_code(return_to_admit(mine, sign_on, state, "", error=error)) == (status, code)
        # Without the cookie of a begun sign-in, Admit trusts no parameter.
        stranger = return_to_admit(browser(), sign_on, state, "", error=error)
        assert status_and_code(stranger) == (401, "sign-on-not-begun")
        query = httpx.QueryParams({"state": state, "error": error})
        headers = {"Accept": "text/html,*/*", "Cookie": f"admit-sign-on={mine.cookies['admit-sign-on']}"}
        shown = client.get(f"/v1/sign-on/{sign_on['id']}/callback?{query}", headers=headers)
        assert (shown.status_code, code in shown.text, "<script>" in shown.text) == (status, True, False)
        assert 'href="/sign-in"' in shown.text


def test_page_that_began_the_sign_in_gets_the_error_code(browser, set_up, ann, hostile):
    sign_on, mine = set_up(MSP, hostile.issuer), browser()
    path = f"/sign-on/{sign_on['id']}/begin"
    answer = mine.ask("GET", f"{path}?on_error=/sign-in%3Ftab=a")
    asked = parse_qs(urlsplit(answer.headers["location"]).query)
    hostile.nonce = "another"
    back = return_to_admit(mine, sign_on, asked["state"][0])
    assert back.status_code == 303
    where = urlsplit(back.headers["location"])
    assert (where.netloc, where.path) == ("", "/sign-in")
    query = parse_qs(where.query)
    assert (query["tab"], query["error"]) == (["a"], ["id-token-not-valid"])
    assert query["request_id"] == [back.headers["x-request-id"]]
    forget_providers()
    hostile.discovery = {"issuer": "https://elsewhere.example"}
    failed = mine.ask("GET", f"{path}?on_error=/sign-in")
    assert (failed.status_code, "error=provider-unavailable" in failed.headers["location"]) == (303, True)
    for elsewhere in ("https://e.example", "//e.example", "/%5Ce.example"):
        assert mine.ask("GET", f"{path}?on_error={elsewhere}").status_code == 422


def test_owner_sees_the_failure_once(browser, set_up, ann, hostile, worker_engine, owner_engine, field, within):
    sign_on = set_up(MSP, hostile.issuer)
    hostile.claims = {"email": "nobody@example.com"}
    for _ in range(3):
        by_hostile(browser(), sign_on, hostile)
    assert failure_audit.audit_failures(engine=worker_engine) == 1
    with owner_engine.connect() as connection:
        found = connection.execute(
            text("SELECT msp_id, target, after FROM audit_log WHERE action = 'sign-in.fail'")
        ).one()
    assert (found.msp_id, found.target) == (field.acme.msp_id, hostile.issuer)
    assert found.after["reasons"] == {"no-member-here": 3}
    assert SECRET not in str(found)
    by_hostile(browser(), sign_on, hostile)
    assert failure_audit.audit_failures(engine=worker_engine) == 0
