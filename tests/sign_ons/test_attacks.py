"""Attacks on single sign-on: stolen codes, unsigned tokens, endless responses."""

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

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from nac.accounts.sign_ons import code_flow
from nac.kit.clock import epoch_seconds
from tests.identities.test_provider import jwk
from tests.sign_in.conftest import EMAIL
from tests.sign_ons.conftest import KEY, MSP, Certificates, at_real_provider, begin, return_to_admit


def test_stolen_code_is_useless_in_a_sign_in_of_the_thief(browser, set_up, ann, real_provider, certificates):
    """The provider verifies PKCE. The thief begins a sign-in at the same MSP, or at another MSP of this provider."""
    acme = set_up(MSP, real_provider)
    for sign_on in (acme, set_up("/msps/bolt", real_provider)):
        path = at_real_provider(begin(browser(), acme), certificates, {"email": EMAIL, "email_verified": True})
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
