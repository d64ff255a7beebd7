"""Logins by OpenID Connect with the password grant, and the validation of tokens."""

import gzip
import json
import threading
from base64 import b64encode

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from nac.inventory.identity_sources.provider import OidcProvider
from nac.kit.clock import epoch_seconds
from tests.identities.servers import provider
from tests.identities.slapd import make_certificates
from tests.identities.test_directory import verify, with_source

SECRET, PASSWORD = "client-secret", "anna's password"
KEY = rsa.generate_private_key(65537, 2048)
OTHER_KEY = rsa.generate_private_key(65537, 2048)
CURVE_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk(key, kid):
    algorithm = (
        jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
    )
    return json.loads(algorithm.to_jwk(key.public_key())) | {"kid": kid, "use": "sig"}


class ProviderResponses:
    """The responses of the provider, which tests change."""

    def __init__(self):
        self.issuer = ""
        self.claims = {
            "sub": "1",
            "aud": "admit",
            "preferred_username": "anna",
            "groups": ["staff", "it"],
            "dept": "IT",
        }
        self.sign = {"key": KEY, "algorithm": "RS256", "headers": {"kid": "one"}}
        self.refusal = None
        self.discovery = {}
        self.token = None
        self.forms = []
        self.asked_for_keys = 0
        # While the event is cleared, responses wait.
        self.stalled = threading.Event()
        self.stalled.set()
        self.keys = [jwk(KEY, "one"), jwk(CURVE_KEY, "two")]

    def answer(self, path, form):
        self.stalled.wait()
        if path == "/.well-known/openid-configuration":
            known = {"issuer": self.issuer, "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys"}
            return 200, known | self.discovery
        if path == "/keys":
            self.asked_for_keys += 1
            return 200, {"keys": self.keys}
        self.forms.append(form)
        if self.refusal is not None:
            return self.refusal
        if (form["username"], form["password"]) != ("anna", PASSWORD):
            return 400, {"error": "invalid_grant", "error_description": "no such user or password"}
        now = epoch_seconds()
        claims = {"iss": self.issuer, "iat": now, "exp": now + 300} | self.claims
        return 200, {"access_token": "x", "id_token": self.token or jwt.encode(claims, **self.sign)}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("provider")
    return folder, make_certificates(folder)


@pytest.fixture
def outside(certificates):
    folder, _ = certificates
    made = ProviderResponses()
    with provider(str(folder / "server.pem"), str(folder / "server.key"), made.answer) as address:
        made.issuer = address
        yield made


@pytest.fixture
def ask(outside, certificates):
    def ask(name="anna", password=PASSWORD, *, times=1, **changed):
        settings = {
            "issuer": outside.issuer,
            "client_id": "admit",
            "ca_certificate": certificates[1],
            "attributes": {"department": "dept"},
        } | changed

        async def use(source):
            return [await verify(source, name, password) for _ in range(times)][-1]

        return with_source(settings, use, kind="oidc", secret=SECRET)

    return ask


def test_user_has_groups_and_attributes_of_the_token(ask, outside):
    answer = ask()
    assert answer.verified
    assert (answer.source, answer.name, answer.groups) == ("corp", "anna", ("staff", "it"))
    assert answer.attributes == {"department": ("IT",)}
    form = outside.forms[0]
    assert (form["grant_type"], form["scope"]) == ("password", "openid profile")
    assert form["authorization"] == "Basic " + b64encode(f"admit:{SECRET}".encode()).decode()


@pytest.mark.parametrize("endpoint", ["token_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    ("url", "reason", "detail"),
    [
        ("https://169.254.169.254/latest", "directory-refused", "169.254.169.254 is a link-local address"),
        ("https://xn--a/", "directory-unavailable", "https://xn--a/: "),
    ],
)
def test_discovered_endpoint_without_valid_address_fails(ask, outside, endpoint, url, reason, detail):
    outside.discovery = {endpoint: url}
    answer = ask()
    assert (answer.reason, detail in answer.detail) == (reason, True)


def test_ec_signed_token_is_valid(ask, outside):
    outside.sign = {"key": CURVE_KEY, "algorithm": "ES256", "headers": {"kid": "two"}}
    assert ask().verified


def test_keys_are_fetched_once(ask, outside):
    assert ask(times=3).verified
    assert outside.asked_for_keys == 1


@pytest.mark.parametrize("password", ["wrong", "", b"\xff"])
def test_wrong_password_is_reported(ask, password):
    assert ask(password=password).reason == "wrong-password"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("AADSTS50034: The user account does not exist", "unknown-user"),
        ("AADSTS50055: InvalidPasswordExpiredPassword", "password-expired"),
        ("AADSTS50057: disabled", "account-disabled"),
        ("AADSTS50053: locked", "account-locked"),
        ("AADSTS50076: multi-factor", "second-factor-needed"),
        ("AADSTS50126: invalid", "wrong-password"),
    ],
)
def test_entra_id_reasons_are_recognised(ask, outside, code, reason):
    outside.refusal = (400, {"error": "invalid_grant", "error_description": code})
    assert ask().reason == reason


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ((401, {"error": "invalid_client"}), "directory-refused"),
        ((400, {"error": "unauthorized_client"}), "directory-refused"),
        ((302, {}), "directory-refused"),
        ((200, {}), "directory-refused"),
        ((200, {"id_token": 5}), "directory-refused"),
        ((200, []), "directory-refused"),
        ((200, b"<html>"), "directory-refused"),
        ((200, b"\xff"), "directory-refused"),
        ((200, b" " * (2 << 20)), "directory-refused"),
        ((503, {}), "directory-unavailable"),
    ],
)
def test_provider_error_admits_nobody(ask, outside, refusal, reason):
    outside.refusal = refusal
    assert ask().reason == reason


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://elsewhere.example"},
        {"aud": "another-client"},
        {"aud": ["admit", "another-client"]},
        {"aud": ["admit", "another-client"], "azp": "another-client"},
        {"preferred_username": "bert"},
        {"preferred_username": None},
        {"preferred_username": ["anna"]},
        {"sub": None},
        {"nbf": float("inf")},
        {"exp": epoch_seconds() - 61},
        {"exp": 1},
    ],
)
def test_token_with_wrong_claims_is_rejected(ask, outside, claims):
    outside.claims = {name: value for name, value in (outside.claims | claims).items() if value is not None}
    assert ask().reason == "directory-refused"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sign", {"key": OTHER_KEY, "algorithm": "RS256", "headers": {"kid": "one"}}),
        ("sign", {"key": OTHER_KEY, "algorithm": "RS256", "headers": {"kid": "unpublished"}}),
        ("sign", {"key": None, "algorithm": "none", "headers": {"kid": "one"}}),
        ("sign", {"key": "s" * 32, "algorithm": "HS256", "headers": {"kid": "one"}}),
        *(("token", token) for token in ("a.b.c", ".", "\u00e9.e.e", b64encode(b"[" * 100_000).decode() + ".e.e")),
        *(("keys", keys) for keys in (None, "abc", {"a": 1}, [])),
        ("discovery", {"issuer": "https://elsewhere.example"}),
        ("discovery", {"token_endpoint": "http://127.0.0.1/token"}),
    ],
    ids=lambda each: str(each)[:40],
)
def test_invalid_token_or_document_is_rejected(ask, outside, name, value):
    setattr(outside, name, value)
    assert ask().reason == "directory-refused"


def test_compressed_response_is_not_inflated(ask, outside):
    outside.refusal = (200, gzip.compress(b'{"id_token": 5}'))
    answer = ask()
    assert (answer.reason, "Unsupported content encoding" in answer.detail) == ("directory-refused", True)


def test_groups_are_loggable_text(ask, outside):
    outside.claims |= {"groups": ["half \ud800", "n\0l", "\x1b[2J", "x" * 5000], "dept": "\ud800"}
    answer = ask()
    assert answer.groups == ("half  ", "n l", " [2J", "x" * 300)
    assert answer.attributes == {"department": (" ",)}


def test_too_many_groups_are_reported(ask, outside):
    outside.claims |= {"groups": [str(number) for number in range(2_001)]}
    assert ask(only_groups=["7"]).reason == "too-many-groups"


def numbers(octets):
    return b64encode(b"\xff" * octets).decode().rstrip("=").replace("/", "_")


@pytest.mark.parametrize(
    "odd",
    [
        "no key",
        {},
        {"kty": []},
        {"kty": "RSA", "n": 1, "e": 2},
        {"kty": "RSA", "n": "AQAB", "e": ""},
        {"kty": "RSA", "n": "\u00e9", "e": "AQAB"},
        {"kty": "RSA", "n": numbers(1 << 16), "e": "AQAB"},
        # With only the private exponent, the library would search the primes for four minutes and block all tenants.
        {"kty": "RSA", "n": numbers(1 << 12), "e": "AQAB", "d": numbers(1 << 12)},
        {"kty": "EC", "crv": [], "x": "", "y": ""},
        {"kty": "oct", "k": "AAAA"},
    ],
    ids=lambda odd: str(odd)[:30],
)
def test_odd_keys_are_skipped_at_once(ask, outside, odd):
    outside.keys.insert(0, odd | {"kid": "odd"} if isinstance(odd, dict) else odd)
    assert ask(time_limit_seconds=2).verified


def test_slow_provider_times_out(ask, outside):
    outside.stalled = threading.Event()
    try:
        assert ask(time_limit_seconds=0.3).reason == "directory-slow"
    finally:
        outside.stalled.set()


@pytest.mark.parametrize("changed", [{"issuer": "https://127.0.0.1:1"}, {"ca_certificate": ""}])
def test_unreachable_or_untrusted_provider_is_unavailable(ask, changed):
    assert ask(**changed).reason == "directory-unavailable"


def test_login_during_the_end_of_its_source_is_reported(ask, monkeypatch):
    """An administrator changed or deleted the source while the login waited."""
    made = OidcProvider.__init__

    def closed(self, *given):
        made(self, *given)
        self._client._state = httpx._client.ClientState.CLOSED

    monkeypatch.setattr(OidcProvider, "__init__", closed)
    answer = ask()
    assert answer.reason == "directory-unavailable"
    assert "changed or deleted" in answer.detail
