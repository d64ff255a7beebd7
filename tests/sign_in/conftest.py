"""The API, and users who have browsers."""

import hashlib
import hmac
import struct
from base64 import b32decode
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, text

from api.main import create_app
from nac.accounts.people import service as people
from nac.kit.clock import epoch_seconds
from nac.kit.db import PersonScope, PlatformScope, session_scope
from nac.models import Person
from tests.accounts.conftest import add_member, field, within  # noqa: F401 -- fixtures
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import MakeToken, make_token  # noqa: F401 -- fixtures
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.postgres import Database
from tests.row_snapshots import SnapshotStore
from tests.sign_in.authenticator import Authenticator

EMAIL, PASSWORD = "ann@example.com", "correct horse battery"
NEW_PASSWORD = "another horse battery"
REFUSED = (401, "sign-in-refused")


def code_of(secret: str, *, steps: int = 0, at: int | None = None) -> str:
    """A TOTP code by RFC 6238, computed without the product's library.

    The code is for `at`, or for now with at least two seconds left in its step.
    """
    if at is None:
        until(lambda: epoch_seconds() % 30 < 28, "the next step")
    step = (epoch_seconds() if at is None else at) // 30 + steps
    digest = hmac.new(b32decode(secret), struct.pack(">Q", step), hashlib.sha1).digest()
    first = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[first : first + 4])[0] & 0x7FFFFFFF) % 1_000_000:06d}"


class Browser:
    """A browser that keeps its cookies and sends requests as Admit's pages do."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.cookies: dict[str, str] = {}
        self.csrf = ""
        self.headers: dict[str, str] = {"Sec-Fetch-Site": "same-origin"}

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        sent = self.headers | {"Admit-CSRF": self.csrf} | headers
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if isinstance(body, dict):
            answer = self._client.request(method, f"/v1{path}", json=body, headers=sent)
        else:
            answer = self._client.request(method, f"/v1{path}", headers=sent)
        self._client.cookies.clear()
        for line in answer.headers.get_list("set-cookie"):
            name, _, rest = line.partition("=")
            self.cookies[name] = rest.partition(";")[0].strip('"')
        if answer.content and "csrf_token" in answer.json():
            self.csrf = answer.json()["csrf_token"]
        return answer

    def good(self, method: str, path: str, body: object = None) -> dict:
        answer = self.ask(method, path, body)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else {}

    def refused(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        answer = self.ask(method, path, body, **headers)
        assert answer.status_code >= 300, (method, path, answer.text)
        return answer.status_code, answer.json()["code"]

    def sign_in(self, email: str = EMAIL, password: str = PASSWORD) -> dict:
        return self.good("POST", "/sign-in", {"email": email, "password": password})

    def has_ended(self) -> bool:
        return self.refused("GET", "/me") == (401, "sign-in-over")

    def add_totp(self) -> str:
        """Add an authenticator app to the account. Returns its secret."""
        secret = self.good("POST", "/me/totp")["secret"]
        self.good("POST", "/me/totp/confirmation", {"code": code_of(secret, steps=-1)})
        return secret

    def offer_passkey(self, key: Authenticator) -> dict:
        """The request that adds the passkey to the account."""
        asked = self.good("POST", "/me/passkeys/options")
        return {"challenge": asked["challenge"], "credential": key.create(asked["options"]), "name": "Key"}

    def add_passkey(self, key: Authenticator) -> None:
        made = self.ask("POST", "/me/passkeys", self.offer_passkey(key))
        assert made.status_code == 201, made.text
        assert made.json() in self.good("GET", made.headers["location"].removeprefix("/v1"))["items"]

    def use_passkey(self, key: Authenticator, challenge: str | None = None) -> dict:
        """The request that signs in by the passkey, as the second factor of `challenge` or as the only factor."""
        asked = self.good("POST", "/sign-in/passkey/options", {"challenge": challenge})
        return {"challenge": asked["challenge"], "credential": key.get(asked["options"])}


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    with serve_app(create_app(settings_of_public(database, tmp_path))) as client:
        # A slow machine must not affect the result.
        client.timeout = httpx.Timeout(60)
        yield client


@pytest.fixture
def browser(client: httpx.Client) -> Callable[[], Browser]:
    return lambda: Browser(client)


MakePerson = Callable[..., Person]


@pytest.fixture
def make_person(app_engine: Engine) -> MakePerson:
    def make(email: str = EMAIL, password: str = PASSWORD) -> Person:
        with session_scope(PlatformScope(), engine=app_engine) as session:
            person_id = people.get_or_create_person(session, email=email)
        with session_scope(PersonScope(person_id), engine=app_engine) as session:
            if password:
                return people.set_password(session, actor=ACTOR, person_id=person_id, password=password)
            return people.require_person(session, person_id=person_id)

    return make


@pytest.fixture
def ann(standing: SnapshotStore, make_person: MakePerson) -> Person:
    return standing(make_person)


@pytest.fixture
def mine(browser: Callable[[], Browser], ann: Person) -> Browser:
    """A browser in which Ann has signed in by password."""
    mine = browser()
    mine.sign_in()
    return mine


@pytest.fixture
def sql(owner_engine: Engine) -> Callable[..., list]:
    """Function that executes a statement as the owner of the tables, and returns its rows."""

    def sql(statement: str, **values: object) -> list:
        with owner_engine.begin() as connection:
            result = connection.execute(text(statement), values)
            return result.all() if result.returns_rows else []

    return sql


@pytest.fixture
def headers_of(make_token: MakeToken) -> Callable[..., dict[str, str]]:  # noqa: F811
    """Function that returns headers with a token of an owner, with these permissions or with all."""
    return lambda *given: {"Authorization": f"Bearer {make_token(*given)}"}
