"""Errors and attacks on the return from a provider. Each error has its own code, for a page, a user or a program."""

import hmac
import json
import socket
import ssl
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import text

from nac.accounts.people import service as people
from nac.accounts.sign_in import failure_audit
from nac.accounts.sign_ons import code_flow
from nac.kit.clock import epoch_seconds
from nac.kit.db import PlatformScope, session_scope
from nac.kit.outbound.tls import tls_context
from tests.factories.tenancy import ACTOR
from tests.identities.test_provider import jwk
from tests.sign_in.conftest import EMAIL
from tests.sign_ons.conftest import (
    KEY,
    MSP,
    SECRET,
    Certificates,
    at_real_provider,
    begin,
    by_hostile,
    forget_providers,
    return_to_admit,
)

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


def test_stolen_code_is_useless_in_a_sign_in_of_the_thief(browser, set_up, ann, real_provider, certificates):
    """The provider verifies PKCE. The thief begins a sign-in at the same MSP, or at another MSP of this provider."""
    acme = set_up(MSP, real_provider)
    for sign_on in (acme, set_up("/msps/bolt", real_provider)):
        path = at_real_provider(begin(browser(), acme), certificates, VERIFIED)
        code = parse_qs(urlsplit(path).query)["code"][0]
        thief = browser()
        asked = begin(thief, sign_on)
        assert return_to_admit(thief, sign_on, asked["state"], code).status_code in (401, 403)
        assert thief.refused("GET", "/me")[0] == 401


def _part(content: object) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _by_hand(header: dict[str, object], claims: dict[str, object], secret: bytes | None) -> str:
    signed = f"{_part(header)}.{_part(claims)}"
    signature = b"" if secret is None else hmac.digest(secret, signed.encode(), sha256)
    return f"{signed}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


def _forged(claims: dict[str, object]) -> Iterator[object]:
    public, strangers = KEY.public_key(), rsa.generate_private_key(65537, 2048)
    hashed = {"alg": "HS256", "kid": "one", "typ": "JWT"}
    for kind in (PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1):
        for encoding in (Encoding.PEM, Encoding.DER):
            yield _by_hand(hashed, claims, public.public_bytes(encoding, kind))
    yield _by_hand(hashed, claims, json.dumps(jwk(KEY, "one")).encode())
    yield _by_hand(hashed, claims, b"")
    for none in ("none", "None", "NONE", ""):
        yield _by_hand(hashed | {"alg": none}, claims, None)
    # Tokens with an embedded key, or with a URL of a key.
    for more in ({"jwk": jwk(strangers, "one")}, {"jku": "https://127.0.0.1/keys"}, {"x5u": "https://127.0.0.1/"}):
        yield jwt.encode(claims, strangers, "RS256", headers={"kid": "one"} | more)
    good = jwt.encode(claims, KEY, "RS256", headers={"kid": "one"})
    head, _, signature = good.split(".")
    yield f"{head}.{_part(claims | {'sub': '2'})}.{signature}"
    yield f"{head}.{_part(claims)}."
    yield jwt.encode(claims, strangers, "RS256", headers={"kid": "one"})
    yield jwt.encode(claims, KEY, "RS256", headers={"kid": "unpublished"})
    yield from (".", "a.b.c", "é", 5)


def test_unsigned_or_foreign_tokens_sign_nobody_in(browser, set_up, ann, hostile):
    sign_on = set_up(MSP, hostile.issuer)
    now = epoch_seconds()
    claims = {"iss": hostile.issuer, "aud": "admit", "sub": "1", "iat": now, "exp": now + 300, "email": EMAIL}
    mine = browser()
    asked = begin(mine, sign_on)
    for token in _forged(claims | {"email_verified": True, "nonce": asked["nonce"]}):
        hostile.token = token
        answer = return_to_admit(mine, sign_on, asked["state"])
        assert (answer.status_code, answer.json()["code"]) == (403, "id-token-not-valid"), token
    # The sign-in succeeds with the provider's signature.
    hostile.token, hostile.nonce = None, asked["nonce"]
    assert return_to_admit(mine, sign_on, asked["state"]).status_code == 303


@pytest.fixture
def endless(certificates: Certificates) -> Iterator[Callable[[bytes], str]]:
    """The issuer of a provider that sends headers and then an endless body."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.folder / "server.pem", certificates.folder / "server.key")
    listener = socket.create_server(("127.0.0.1", 0))
    saying = [b""]

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError), tls.wrap_socket(connection, server_side=True) as secured:
                secured.recv(65536)
                secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                if saying[0].startswith(b"{"):
                    secured.sendall(b"\r\n")
                while True:
                    secured.sendall(saying[0])
                    if len(saying[0]) < 1_000:
                        time.sleep(0.02)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def begin_with_response(what: bytes) -> str:
        saying[0] = what
        return f"https://127.0.0.1:{listener.getsockname()[1]}"

    yield begin_with_response
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize("said", [b"{" + b" " * 60_000, b"{", b"X-Name: value\r\n"], ids=["huge", "slow", "headers"])
def test_endless_provider_response_is_aborted(browser, set_up, endless, said, monkeypatch):
    monkeypatch.setattr(code_flow, "_TOTAL_SECONDS", 0.8)
    monkeypatch.setattr(code_flow, "_STEP_SECONDS", 0.4)
    sign_on = set_up(MSP, endless(said))
    answer = browser().ask("GET", f"/sign-on/{sign_on['id']}/begin")
    assert (answer.status_code, answer.json()["code"]) == (503, "provider-unavailable")
