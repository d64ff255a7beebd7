"""Two MSPs, of which the first has a tenant, members of several owners, and identity providers."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from api.main import create_app
from nac.accounts.sign_ons import code_flow
from nac.kit.clock import epoch_seconds
from nac.kit.outbound.tls import tls_context
from tests.accounts.conftest import AddMember, Field, add_member, field, within  # noqa: F401 -- fixtures
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import make_token  # noqa: F401 -- fixtures
from tests.identities.servers import provider
from tests.identities.slapd import make_certificates
from tests.identities.test_provider import jwk
from tests.postgres import Database
from tests.sign_in.conftest import EMAIL, Browser, browser, headers_of, make_person  # noqa: F401 -- fixtures

MSP = "/msps/acme"
KEY = rsa.generate_private_key(65537, 2048)
SECRET = "the client's own: secret"


@dataclass(frozen=True)
class Certificates:
    folder: Path
    authority: str


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("provider")
    return Certificates(folder, make_certificates(folder))


@pytest.fixture(scope="module")
def real_provider(certificates: Certificates) -> Iterator[str]:
    """The issuer of a provider that validates Admit's requests."""
    script = Path(__file__).with_name("provider_process.py")
    files = [certificates.folder / name for name in ("server.pem", "server.key")]
    with subprocess.Popen(
        [sys.executable, script, *files], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"https://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


class HostileProvider:
    """A provider whose responses the test sets."""

    def __init__(self) -> None:
        self.issuer = ""
        self.discovery: dict[str, object] = {}
        self.claims: dict[str, object] = {}
        self.without: tuple[str, ...] = ()
        self.sign: dict[str, object] = {"key": KEY, "algorithm": "RS256", "headers": {"kid": "one"}}
        self.token: object = None
        self.userinfo: dict[str, object] = {}
        self.nonce = ""
        self.forms: list[dict[str, str]] = []

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, object]:
        if path == "/.well-known/openid-configuration":
            paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            known = {name: f"{self.issuer}/{path}" for name, path in paths.items()}
            return 200, {"issuer": self.issuer, "userinfo_endpoint": f"{self.issuer}/me"} | known | self.discovery
        if path == "/keys":
            return 200, {"keys": [jwk(KEY, "one")]}
        if path == "/me":
            return 200, self.userinfo
        self.forms.append(form)
        now = epoch_seconds()
        claims = {
            "iss": self.issuer,
            "aud": "admit",
            "sub": "1",
            "iat": now,
            "exp": now + 300,
            "nonce": self.nonce,
            "email": "ann@example.com",
            "email_verified": True,
        } | self.claims
        claims = {name: value for name, value in claims.items() if name not in self.without}
        return 200, {"access_token": "x", "id_token": self.token or jwt.encode(claims, **self.sign)}  # type: ignore[arg-type]


@pytest.fixture
def hostile(certificates: Certificates) -> Iterator[HostileProvider]:
    made = HostileProvider()
    files = [str(certificates.folder / name) for name in ("server.pem", "server.key")]
    with provider(*files, made.answer) as address:
        made.issuer = address
        yield made


def forget_providers() -> None:
    """Forget the metadata of providers, and the delays after their failures."""
    code_flow._metadata_cache.__init__()  # type: ignore[misc]
    code_flow._provider_limits.__init__()  # type: ignore[misc]


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    forget_providers()
    settings = settings_of_public(database, tmp_path, ADMIT_OUTBOUND_NETWORKS="127.0.0.0/8")
    with serve_app(create_app(settings)) as client:
        # A slow machine must not affect the result.
        client.timeout = httpx.Timeout(60)
        yield client


SetUp = Callable[..., dict]


@pytest.fixture
def set_up(client: httpx.Client, field: Field, headers_of, certificates: Certificates) -> SetUp:  # noqa: F811
    """Function that creates a single sign-on of an owner, such as "/msps/acme"."""

    def put(place: str, issuer: str, **changed: object) -> dict:
        owner = {"/msps/acme": field.acme, "/msps/bolt": field.bolt, "/tenants/alpha": field.alpha}[place]
        body = {"client_id": "admit", "client_secret": SECRET, "ca_certificate": certificates.authority}
        body |= {"issuer": issuer} | changed
        answer = client.put(f"/v1{place}/sign-on", json=body, headers=headers_of(owner))
        assert answer.status_code == 200, answer.text
        assert SECRET not in answer.text
        return answer.json()

    return put


@pytest.fixture
def ann(add_member: AddMember, field: Field, make_person) -> None:  # noqa: F811
    """A user with a password, who is a member of acme, of bolt and, separately, of acme's tenant alpha."""
    make_person()
    for owner, role in ((field.acme, "help-desk"), (field.bolt, "msp-admin"), (field.alpha, "tenant-admin")):
        add_member(owner, EMAIL, role)


def begin(mine: Browser, sign_on: dict, to: str = "/x") -> dict[str, str]:
    """Begin a sign-in. Returns the parameters of the authorization request."""
    answer = mine.ask("GET", f"/sign-on/{sign_on['id']}/begin?next={to}")
    assert answer.status_code == 303, answer.text
    asked = urlsplit(answer.headers["location"])
    return {name: values[0] for name, values in parse_qs(asked.query).items()} | {"at": answer.headers["location"]}


def return_to_admit(mine: Browser, sign_on: dict, state: str, code: str = "c", **more: str) -> httpx.Response:
    query = httpx.QueryParams({"state": state, "code": code} | more)
    return mine.ask("GET", f"/sign-on/{sign_on['id']}/callback?{query}")


def by_hostile(mine: Browser, sign_on: dict, hostile: HostileProvider) -> httpx.Response:
    asked = begin(mine, sign_on)
    hostile.nonce = asked["nonce"]
    return return_to_admit(mine, sign_on, asked["state"])


def at_real_provider(asked: dict[str, str], certificates: Certificates, claims: dict) -> str:
    """The path to which the real provider returns the browser of the user ann-1."""
    issuer = asked["at"].partition("/oauth2")[0]
    with httpx.Client(verify=tls_context(certificates.authority), trust_env=False) as there:
        assert there.put(f"{issuer}/users/ann-1", json=claims).status_code == 204
        answer = there.post(asked["at"], data={"sub": "ann-1"})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"].partition("/v1")[2]
