"""The API of an installation that offers trials, and the mails in its outbox."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from api import change, portal
from api.main import create_app
from nac.kit.db import PlatformScope, session_scope
from nac.kit.settings import Settings
from nac.models import Mail
from nac.models.mail import mail_context
from nac.onboarding.trials.lifecycle import TrialEnvironment
from nac.onboarding.trials.service import SignUpContext
from tests.api.app_server import serve_app, settings_of_public
from tests.factories.certificates import SIGNING
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell
from tests.postgres import Database
from tests.row_snapshots import SnapshotStore, snapshotted

ANN = {"email": "ann@acme.example", "organisation": "Acme <School> Söhne"}
PASSWORD = "a few words of ann"


@pytest.fixture(autouse=True)
def _without_portal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a built portal, `/` lists the tenants, whether or not this checkout has built the portal."""
    monkeypatch.setattr(portal, "_files", lambda: None)


class Mails:
    """Unsealed mails in the outbox."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> list[tuple[str, str, dict]]:
        """The mails as (template, recipient, values) in order of creation."""
        with session_scope(PlatformScope(), engine=self._engine) as session:
            rows = session.scalars(select(Mail).order_by(Mail.created_at, Mail.key)).all()
        return [
            (row.template, row.recipient, json.loads(SIGNING.sealer.open(row.values_sealed, mail_context(row.id))))
            for row in rows
        ]

    def templates(self) -> list[str]:
        return [template for template, _, _ in self.all()]

    def link(self) -> str:
        """The path of the last link."""
        found = [values["link"] for template, _, values in self.all() if template == "sign-up-confirm"][-1]
        return re.sub(r"^https?://[^/]+", "", found)

    def token(self) -> str:
        return self.link().rpartition("/")[2]


@pytest.fixture
def mails(worker_engine: Engine) -> Mails:
    return Mails(worker_engine)


@pytest.fixture
@snapshotted
def cell(cell_engine: Engine) -> None:
    """A cell that has registered and was killed. Policies can be written, but nothing responds."""
    give_dictionary(cell_engine, make_cell(cell_engine, slots=4, seal_with=SIGNING.sealer.seal))


@pytest.fixture
def offering(database: Database, tmp_path: Path) -> Settings:
    return settings_of_public(
        database,
        tmp_path,
        ADMIT_TRIALS="yes",
        ADMIT_TRIAL_ENDPOINTS="2",
        ADMIT_TRIAL_AUTHENTICATIONS_A_DAY="3",
        ADMIT_TRIAL_SIGN_UPS_OF_DOMAIN="6",
        ADMIT_TRIAL_TENANTS="2",
        ADMIT_PORTAL_URL="https://admit.example",
    )


@pytest.fixture
def api(offering: Settings, cell: None) -> Iterator[httpx.Client]:
    with serve_app(create_app(offering)) as client:
        yield client


@pytest.fixture
def keeper(offering: Settings) -> TrialEnvironment:
    return TrialEnvironment(
        SignUpContext(offering.trials, offering.portal_url, SIGNING.sealer.seal), SIGNING, offering.radius_host
    )


@pytest.fixture
def sign_up(api: httpx.Client) -> Callable[..., httpx.Response]:
    return lambda **changed: api.post("/v1/sign-up", json=ANN | changed)


@pytest.fixture
def confirm(api: httpx.Client, mails: Mails) -> Callable[..., httpx.Response]:
    """Function that opens the last link, and chooses a password."""

    def confirm(**changed: str) -> httpx.Response:
        wanted = {"token": mails.token(), "password": PASSWORD}
        return api.post("/v1/sign-up/confirm", json=wanted | changed)

    return confirm


@pytest.fixture
def trial(standing: SnapshotStore, sign_up, confirm) -> str:
    """The slug of the tenant of the user Ann."""

    def make_trial() -> str:
        assert sign_up().status_code == 202
        answer = confirm(name="Ann")
        assert answer.status_code == 201, answer.text
        return answer.json()["tenant"]

    return standing(make_trial)


class Start:
    """The start page of a trial, in a signed-in browser."""

    def __init__(self, api: httpx.Client, slug: str) -> None:
        self.api, self.slug, self.path = api, slug, f"/start/{slug}"
        assert api.post("/sign-in", data={"email": ANN["email"], "password": PASSWORD}).status_code == 303
        # Browsers send the cookie only over TLS.
        api.headers["Cookie"] = f"__Host-admit={api.cookies['__Host-admit']}"
        found = re.search('name="csrf_token" value="([^"]+)"', api.get("/").text)
        assert found
        self.csrf_token = found[1]

    def post(self, form: str, **given: str) -> httpx.Response:
        return self.post_to(f"{self.path}/{form}", **given)

    def post_to(self, path: str, **given: str) -> httpx.Response:
        return self.api.post(path, data=given | {"csrf_token": self.csrf_token})


@pytest.fixture
def start(api: httpx.Client, trial: str, monkeypatch: pytest.MonkeyPatch) -> Start:
    # The cell of these tests is dead, so no test waits for its confirmation.
    monkeypatch.setattr(change, "_LIVE_TIMEOUT_SECONDS", 0.05)
    return Start(api, trial)


@pytest.fixture
def platform_session(app_engine: Engine) -> Callable[[], AbstractContextManager[Session]]:
    return lambda: session_scope(PlatformScope(), engine=app_engine)
