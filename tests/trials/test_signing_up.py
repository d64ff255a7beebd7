"""Sign-up from a mail address to a tenant, and its protection against attackers."""

from datetime import timedelta
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import Engine, select, update

from api.main import create_app
from nac.accounts.members import service as members
from nac.certificates import intents
from nac.certificates.issuance import SERVER_PROFILE
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, make_engine, session_scope
from nac.kit.errors import NoFreeSlot
from nac.kit.passwords import verify_password
from nac.kit.permissions import permissions_at
from nac.kit.settings import TrialSettings
from nac.models import (
    AuthorityIntent,
    Certificate,
    CertificateAuthority,
    Membership,
    Msp,
    Person,
    SelfTest,
    SignUp,
    Site,
    Tenant,
    Trial,
)
from nac.onboarding.trials import lifecycle, provisioning
from nac.onboarding.trials import service as signing_up
from nac.onboarding.trials.lifecycle import TrialEnvironment
from nac.onboarding.trials.service import SignUpContext
from nac.tenancy import sites
from nac.tenancy.tenants import service as tenants
from tests.api.app_server import serve_app, settings_of_public
from tests.commit_kills import deaths
from tests.factories.certificates import SIGNING
from tests.postgres import Database
from tests.sign_in.conftest import Browser
from tests.trials.conftest import ANN, PASSWORD, Mails


def test_confirmed_user_administers_a_working_tenant(trial: str, mails: Mails, app_engine: Engine, api: httpx.Client):
    assert trial.startswith("acme-school-sohne-")
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenant = tenants.require_by_slug(session, slug=trial)
        person = session.scalars(select(Person)).one()
        assert (person.email, person.name) == (ANN["email"], "Ann")
        assert verify_password(PASSWORD.encode(), person.password_hash)
        assert session.get_one(Msp, tenant.msp_id).slug == provisioning.TRIAL_MSP_SLUG
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        (member,) = members.list_members(session, owner=Owner(tenant_id=tenant.id))
        assert (member.person.email, member.role) == (ANN["email"], "tenant-admin")
        assert sites.require_default(session, tenant_id=tenant.id).policy_id is not None
        assert session.scalars(select(SelfTest.state)).one() == "queued"
    template, recipient, values = mails.all()[-1]
    assert (template, recipient, values["tenant"]) == ("trial-ready", ANN["email"], trial)
    assert PASSWORD not in str(mails.all())


def test_new_tenant_is_read_at_its_location(api: httpx.Client, mails: Mails):
    assert api.post("/v1/sign-up", json=ANN).status_code == 202
    made = api.post("/v1/sign-up/confirm", json={"token": mails.token(), "password": PASSWORD})
    assert made.status_code == 201, made.text
    ann = Browser(api)
    ann.sign_in(ANN["email"], PASSWORD)
    read = ann.good("GET", made.headers["location"].removeprefix("/v1"))
    assert read["slug"] == made.json()["tenant"]


def test_link_works_once(trial: str, mails: Mails, api: httpx.Client):
    asked = {"token": mails.token(), "password": PASSWORD}
    again = api.post("/v1/sign-up/confirm", json=asked)
    unknown = api.post("/v1/sign-up/confirm", json=asked | {"token": "x" * 43})
    assert (again.status_code, again.json()["code"]) == (410, "link-refused")
    assert again.json()["detail"] == unknown.json()["detail"]
    assert api.get(mails.link()).status_code == 410


def test_known_and_unknown_addresses_get_the_same_response(trial: str, mails: Mails, api: httpx.Client):
    known = api.post("/v1/sign-up", json=ANN)
    unknown = api.post("/v1/sign-up", json=ANN | {"email": "bob@bolt.example"})
    assert (known.status_code, known.content) == (unknown.status_code, unknown.content)
    assert mails.templates()[-2:] == ["sign-up-known", "sign-up-confirm"]


def test_link_expires_after_a_day(mails: Mails, api: httpx.Client, app_engine: Engine):
    api.post("/v1/sign-up", json=ANN)
    assert api.get(mails.link()).status_code == 200
    with session_scope(PlatformScope(), engine=app_engine) as session:
        session.execute(update(SignUp).values(expires_at=utc_now() - timedelta(seconds=1)))
    assert api.get(mails.link()).status_code == 410


def test_second_link_makes_no_second_account(mails: Mails, api: httpx.Client):
    api.post("/v1/sign-up", json=ANN)
    first = mails.token()
    api.post("/v1/sign-up", json=ANN)
    second = mails.token()
    for token, status in ((first, 201), (second, 410)):
        answer = api.post("/v1/sign-up/confirm", json={"token": token, "password": PASSWORD})
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"email": "ann"},
        {"email": "ann@acme.example\r\nBcc: x@y.example"},
        {"email": "a@" + "b" * 300 + ".example"},
        {"organisation": ""},
        {"organisation": "a\x00b"},
        {"organisation": "a" * 81},
        {"organisation": "WIN a prize: click http://evil.example/now"},
        {"organisation": "Look at WWW.evil.example"},
        {"organisation": "evil.example/now"},
        {"organisation": "write to eve@evil.example"},
        {"role": "platform-operator"},
    ],
)
def test_invalid_sign_up_is_rejected(api: httpx.Client, mails: Mails, wrong: dict[str, str]):
    assert api.post("/v1/sign-up", json=ANN | wrong).status_code == 422
    assert not mails.all()


def test_weak_password_keeps_the_link_valid(mails: Mails, api: httpx.Client):
    api.post("/v1/sign-up", json=ANN)
    for password, status in (("short", 422), (ANN["email"], 422), (PASSWORD, 201)):
        answer = api.post("/v1/sign-up/confirm", json={"token": mails.token(), "password": password})
        assert answer.status_code == status, answer.text


def test_one_address_gets_three_links_a_day(api: httpx.Client, mails: Mails):
    answers = {api.post("/v1/sign-up", json=ANN).content for _ in range(5)}
    assert len(answers) == 1
    assert len(mails.all()) == 3


def confirm_some(app_engine: Engine, number: int, domain: str) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        for each in range(number):
            row = SignUp(id=uuid4(), email=f"{each}@{domain}", domain=domain, organisation="x", state="done")
            row.expires_at = row.confirmed_at = utc_now()
            # The source address differs from the address of the test.
            row.from_address = "192.0.2.1"
            session.add(row)


def test_confirmations_per_domain_and_day_are_limited(api: httpx.Client, mails: Mails, app_engine: Engine):
    asked = [api.post("/v1/sign-up", json=ANN | {"email": f"{n}@acme.example"}).status_code for n in range(4)]
    token = mails.token()
    confirm_some(app_engine, 6, "acme.example")
    confirm_some(app_engine, 20, "gmail.com")
    answer = api.post("/v1/sign-up", json=ANN)
    assert (asked, answer.status_code) == ([202] * 4, 429)
    assert answer.headers["retry-after"]
    wanted = {"token": token, "password": PASSWORD}
    assert api.post("/v1/sign-up/confirm", json=wanted).status_code == 429
    assert api.post("/v1/sign-up", json=ANN | {"email": "bob@gmail.com"}).status_code == 202
    with session_scope(PlatformScope(), engine=app_engine) as session:
        over = utc_now() - timedelta(days=2)
        session.execute(update(SignUp).where(SignUp.confirmed_at.is_not(None)).values(confirmed_at=over))
    assert api.post("/v1/sign-up/confirm", json=wanted).status_code == 201


def test_requests_per_source_and_day_are_limited(app_engine: Engine):
    terms = TrialSettings(
        offered=True,
        days=1,
        grace_days=1,
        endpoints=1,
        authentications_a_day=1,
        a_day_of_address=2,
        a_day_of_domain=9,
        a_day=99,
        most=9,
    )
    desk = SignUpContext(terms, "https://admit.example", SIGNING.sealer.seal)

    def ask(number: int, address: str | None) -> None:
        with session_scope(PlatformScope(), engine=app_engine) as session:
            signing_up.request_sign_up(
                session, desk, email=f"{number}@acme.example", organisation="Acme", address=address
            )

    for sources in (("unknown", None, "a" * 500), ("2001:db8::1", "2001:db8::2%eth0", "2001:db8::3")):
        for number, address in enumerate(sources[:2]):
            ask(number, address)
        with pytest.raises(signing_up.TooManySignUps):
            ask(3, sources[2])


def test_invited_member_can_still_sign_up(api: httpx.Client, mails: Mails, trial: str, app_engine: Engine):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        owner = Owner(tenant_id=tenants.require_by_slug(session, slug=trial).id)

    def add(email: str) -> None:
        with session_scope(TenantScope(owner.tenant_id), engine=app_engine) as session:
            held = permissions_at(owner.level)
            members.create_member(session, actor="x", held=held, owner=owner, email=email, role="auditor")

    bob = ANN | {"email": "bob@bolt.example"}
    add(bob["email"])
    assert api.post("/v1/sign-up", json=bob).status_code == 202
    assert mails.templates()[-1] == "sign-up-confirm"
    cid = ANN | {"email": "cid@bolt.example"}
    assert api.post("/v1/sign-up", json=cid).status_code == 202
    add(cid["email"])
    wanted = {"token": mails.token(), "password": PASSWORD, "name": "Cid"}
    assert api.post("/v1/sign-up/confirm", json=wanted).status_code == 201
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert session.scalars(select(Person.name).where(Person.email == cid["email"])).one() == "Cid"


def test_link_stays_valid_while_all_trials_are_taken(trial: str, mails: Mails, api: httpx.Client, app_engine: Engine):
    for name in ("bob", "cid"):
        api.post("/v1/sign-up", json=ANN | {"email": f"{name}@bolt.example"})
        asked = {"token": mails.token(), "password": PASSWORD}
        answer = api.post("/v1/sign-up/confirm", json=asked)
        assert answer.status_code == (201 if name == "bob" else 503), answer.text
    with session_scope(PlatformScope(), engine=app_engine) as session:
        session.execute(update(Trial).values(state="converted"))
    assert api.post("/v1/sign-up/confirm", json=asked).status_code == 201


def test_sign_up_is_disabled_without_trials(database: Database, tmp_path):
    with serve_app(create_app(settings_of_public(database, tmp_path))) as client:
        assert client.post("/v1/sign-up", json=ANN).status_code == 404
        assert client.get("/sign-up").status_code == 404


def test_worker_completes_an_unfinished_sign_up(api, mails, keeper, app_engine, worker_engine, monkeypatch):
    """Each step fails once. Completed steps remain, and run once."""
    api.post("/v1/sign-up", json=ANN)
    steps = ("create_tenant_authorities", "assign_standard_policy", "_ensure_admin", "_finish_sign_up")
    kept = {name: getattr(provisioning, name) for name in steps}

    def fail(*_: object, **__: object) -> None:
        raise NoFreeSlot("on purpose")

    monkeypatch.setattr(provisioning, steps[0], fail)
    answer = api.post("/v1/sign-up/confirm", json={"token": mails.token(), "password": PASSWORD})
    assert (answer.status_code, answer.json()) == (201, {"tenant": ""})
    for broken in steps:
        for name in steps:
            monkeypatch.setattr(provisioning, name, fail if name == broken else kept[name])
        _keep(keeper, app_engine, worker_engine)
        assert "trial-ready" not in mails.templates()
    monkeypatch.undo()
    _keep(keeper, app_engine, worker_engine)
    assert mails.templates().count("trial-ready") == 1
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert len(session.scalars(select(Tenant)).all()) == 1
        assert session.scalars(select(SignUp.state)).one() == "done"


def _keep(keeper: TrialEnvironment, app_engine: Engine, worker_engine: Engine) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        session.execute(update(SignUp).values(due_at=utc_now() - timedelta(seconds=1)))
    lifecycle.process_trials(keeper, engine=worker_engine)


def test_killed_sign_up_is_completed(api, mails, keeper, database, app_engine, owner_engine, monkeypatch):
    """The API is killed before and after each commit. The result is one complete tenant, one mail and one self-test."""
    api.post("/v1/sign-up", json=ANN)
    with monkeypatch.context() as patch:
        patch.setattr(provisioning, "provision_trial", _fail)
        assert api.post("/v1/sign-up/confirm", json={"token": mails.token(), "password": PASSWORD}).status_code == 201

    def finish() -> None:
        engine = make_engine(database.app_url)
        with session_scope(PlatformScope(), engine=engine) as session:
            sign_up_id = session.scalars(select(SignUp.id)).one()
        provisioning.provision_trial(
            sign_up_id, keeper.context, signing=keeper.signing, radius_host=keeper.radius_host, engine=engine
        )

    for _ in deaths(finish):
        # A minute later, the worker cancels the pending certificate.
        with owner_engine.begin() as connection:
            for table in (Certificate, AuthorityIntent):
                connection.execute(update(table).values(created_at=table.created_at - timedelta(minutes=2)))
        with session_scope(PlatformScope(), engine=app_engine) as session:
            tenant_ids = session.scalars(select(Tenant.id)).all()
        for tenant_id in tenant_ids:
            with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
                intents.abandon_stale_intents(session, actor="worker", tenant_id=tenant_id, now=utc_now())
    assert mails.templates().count("trial-ready") == 1
    with session_scope(PlatformScope(), engine=app_engine) as session:
        (tenant,) = session.scalars(select(Tenant)).all()
        assert session.scalars(select(SignUp.state)).one() == "done"
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        assert session.scalars(select(SelfTest.state)).all() == ["queued"]
        kinds = select(CertificateAuthority.kind).where(CertificateAuthority.status == "active")
        assert sorted(session.scalars(kinds)) == ["issuing", "root"]
        valid = select(Certificate.profile).where(Certificate.status == "valid")
        assert session.scalars(valid).all() == [SERVER_PROFILE]
        assert session.scalars(select(Site.policy_id)).one() is not None
        assert len(session.scalars(select(Membership)).all()) == 1


def _fail(*_: object, **__: object) -> str:
    raise NoFreeSlot("on purpose")


def test_broken_sign_up_does_not_block_other_trials(
    api: httpx.Client, mails: Mails, keeper: TrialEnvironment, worker_engine: Engine, app_engine: Engine, monkeypatch
):
    """This holds for any error in the data of the sign-up or in Admit's code."""
    api.post("/v1/sign-up", json=ANN)
    api.post("/v1/sign-up/confirm", json={"token": mails.token(), "password": PASSWORD})
    other = {"email": "bob@bolt.example", "organisation": "Bolt"}
    api.post("/v1/sign-up", json=other)

    def fail(*_: object, **__: object) -> str:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(provisioning, "provision_trial", _fail)
        api.post("/v1/sign-up/confirm", json={"token": mails.token(), "password": PASSWORD})
    monkeypatch.setattr(lifecycle, "provision_trial", fail)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        session.execute(update(SignUp).values(due_at=utc_now() - timedelta(seconds=1), attempts=19))
        ends_at = session.scalars(select(Trial.ends_at)).one()
    lifecycle.process_trials(keeper, now=ends_at, engine=worker_engine)
    assert "trial-ended" in mails.templates()
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert set(session.scalars(select(SignUp.state))) == {"done", "failed"}
