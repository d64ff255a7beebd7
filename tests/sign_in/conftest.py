"""The API, and users who have browsers."""

import hashlib
import hmac
import struct
from base64 import b32decode
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from api.main import create_app
from nac.accounts.people import service as people
from nac.kit.clock import epoch_seconds
from nac.kit.db import PersonScope, PlatformScope, session_scope
from nac.models import Person
from tests.accounts.conftest import field, within  # noqa: F401 -- fixtures
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import make_token  # noqa: F401 -- fixtures
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.postgres import Database
from tests.row_snapshots import SnapshotStore

EMAIL, PASSWORD = "ann@example.com", "correct horse battery"


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
