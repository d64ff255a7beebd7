"""Sign-up from a mail address to a tenant, and its protection against attackers."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select, update

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
from nac.onboarding.trials.service import SignUpContext
from nac.tenancy import sites
from nac.tenancy.tenants import service as tenants
from tests.api.app_server import serve_app, settings_of_public
from tests.commit_kills import deaths
from tests.factories.certificates import SIGNING
from tests.sign_in.conftest import Browser, sql
from tests.trials.conftest import ANN, PASSWORD

__all__ = ["sql"]


def test_confirmed_user_administers_a_working_tenant(trial, mails, app_engine, api, platform_session):
    assert trial.startswith("acme-school-sohne-")
    with platform_session() as session:
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


def test_link_works_once_and_leads_to_the_tenant(sign_up, confirm, mails, api):
    assert sign_up().status_code == 202
    made = confirm()
    assert made.status_code == 201, made.text
    ann = Browser(api)
    ann.sign_in(ANN["email"], PASSWORD)
    read = ann.good("GET", made.headers["location"].removeprefix("/v1"))
    assert read["slug"] == made.json()["tenant"]
    again, unknown = confirm(), confirm(token="x" * 43)
    assert (again.status_code, again.json()["code"]) == (410, "link-refused")
    assert again.json()["detail"] == unknown.json()["detail"]
    assert api.get(mails.link()).status_code == 410


def test_known_and_unknown_addresses_get_the_same_response(trial, mails, sign_up):
    known = sign_up()
    unknown = sign_up(email="bob@bolt.example")
    assert (known.status_code, known.content) == (unknown.status_code, unknown.content)
    assert mails.templates()[-2:] == ["sign-up-known", "sign-up-confirm"]


def test_link_expires_after_a_day(mails, api, sign_up, platform_session):
    sign_up()
    assert api.get(mails.link()).status_code == 200
    with platform_session() as session:
        session.execute(update(SignUp).values(expires_at=utc_now() - timedelta(seconds=1)))
    assert api.get(mails.link()).status_code == 410


def test_second_link_makes_no_second_account(mails, sign_up, confirm):
    sign_up()
    first = mails.token()
    sign_up()
    assert (confirm(token=first).status_code, confirm().status_code) == (201, 410)


def test_invalid_sign_up_is_rejected(sign_up, mails):
    for wrong in (
        *({"email": each} for each in ("ann", "ann@acme.example\r\nBcc: x@y.example", "a@" + "b" * 300 + ".example")),
        *({"organisation": each} for each in ("", "a\x00b", "a" * 81)),
        {"organisation": "WIN a prize: click http://evil.example/now"},
        {"organisation": "Look at WWW.evil.example"},
        {"organisation": "evil.example/now"},
        {"organisation": "write to eve@evil.example"},
        {"role": "platform-operator"},
    ):
        assert sign_up(**wrong).status_code == 422, wrong
    assert not mails.all()


def test_weak_password_keeps_the_link_valid(sign_up, confirm):
    sign_up()
    for password, status in (("short", 422), (ANN["email"], 422), (PASSWORD, 201)):
        assert confirm(password=password).status_code == status


def test_one_address_gets_three_links_a_day(sign_up, mails):
    answers = {sign_up().content for _ in range(5)}
    assert len(answers) == 1
    assert len(mails.all()) == 3


def test_confirmations_per_domain_and_day_are_limited(sign_up, confirm, mails, platform_session):
    asked = [sign_up(email=f"{n}@acme.example").status_code for n in range(4)]
    token, now = mails.token(), utc_now()
    with platform_session() as session:
        for number, domain in enumerate(["acme.example"] * 6 + ["gmail.com"] * 20):
            row = {"email": f"{number}@{domain}", "domain": domain, "organisation": "x", "state": "done"}
            # The source address differs from the address of the test.
            session.add(SignUp(id=uuid4(), **row, expires_at=now, confirmed_at=now, from_address="192.0.2.1"))
    answer = sign_up()
    assert (asked, answer.status_code) == ([202] * 4, 429)
    assert answer.headers["retry-after"]
    assert confirm(token=token).status_code == 429
    assert sign_up(email="bob@gmail.com").status_code == 202
    with platform_session() as session:
        over = now - timedelta(days=2)
        session.execute(update(SignUp).where(SignUp.confirmed_at.is_not(None)).values(confirmed_at=over))
    assert confirm(token=token).status_code == 201


def test_requests_per_source_and_day_are_limited(platform_session):
    terms = {"offered": True, "days": 1, "grace_days": 1, "endpoints": 1, "authentications_a_day": 1, "most": 9}
    settings = TrialSettings(**terms, a_day_of_address=2, a_day_of_domain=9, a_day=99)
    desk = SignUpContext(settings, "https://admit.example", SIGNING.sealer.seal)

    def ask(number: int, address: str | None) -> None:
        with platform_session() as session:
            given = {"email": f"{number}@acme.example", "organisation": "Acme", "address": address}
            signing_up.request_sign_up(session, desk, **given)

    for sources in (("unknown", None, "a" * 500), ("2001:db8::1", "2001:db8::2%eth0", "2001:db8::3")):
        for number, address in enumerate(sources[:2]):
            ask(number, address)
        with pytest.raises(signing_up.TooManySignUps):
            ask(3, sources[2])


def test_invited_member_can_still_sign_up(sign_up, confirm, mails, trial, app_engine, platform_session):
    with platform_session() as session:
        owner = Owner(tenant_id=tenants.require_by_slug(session, slug=trial).id)

    def add(email: str) -> None:
        with session_scope(TenantScope(owner.tenant_id), engine=app_engine) as session:
            held = permissions_at(owner.level)
            members.create_member(session, actor="x", held=held, owner=owner, email=email, role="auditor")

    bob, cid = "bob@bolt.example", "cid@bolt.example"
    add(bob)
    assert sign_up(email=bob).status_code == 202
    assert mails.templates()[-1] == "sign-up-confirm"
    assert sign_up(email=cid).status_code == 202
    add(cid)
    assert confirm(name="Cid").status_code == 201
    with platform_session() as session:
        assert session.scalars(select(Person.name).where(Person.email == cid)).one() == "Cid"


def test_link_stays_valid_while_all_trials_are_taken(trial, sign_up, confirm, platform_session):
    for name in ("bob", "cid"):
        sign_up(email=f"{name}@bolt.example")
        answer = confirm()
        assert answer.status_code == (201 if name == "bob" else 503), answer.text
    with platform_session() as session:
        session.execute(update(Trial).values(state="converted"))
    assert confirm().status_code == 201


def test_sign_up_is_disabled_without_trials(database, tmp_path):
    with serve_app(create_app(settings_of_public(database, tmp_path))) as client:
        assert client.post("/v1/sign-up", json=ANN).status_code == 404
        assert client.get("/sign-up").status_code == 404


def _fail(*_: object, **__: object) -> str:
    raise NoFreeSlot("on purpose")


def test_worker_completes_an_unfinished_sign_up(
    sign_up, confirm, mails, keeper, worker_engine, monkeypatch, platform_session
):
    """Each step fails once. Completed steps remain, and run once."""
    sign_up()

    def keep() -> None:
        with platform_session() as session:
            session.execute(update(SignUp).values(due_at=utc_now() - timedelta(seconds=1)))
        lifecycle.process_trials(keeper, engine=worker_engine)

    steps = ("create_tenant_authorities", "assign_standard_policy", "_ensure_admin", "_finish_sign_up")
    with monkeypatch.context() as patch:
        patch.setattr(provisioning, steps[0], _fail)
        answer = confirm()
    assert (answer.status_code, answer.json()) == (201, {"tenant": ""})
    for broken in steps:
        with monkeypatch.context() as patch:
            patch.setattr(provisioning, broken, _fail)
            keep()
        assert "trial-ready" not in mails.templates()
    keep()
    assert mails.templates().count("trial-ready") == 1
    with platform_session() as session:
        assert len(session.scalars(select(Tenant)).all()) == 1
        assert session.scalars(select(SignUp.state)).one() == "done"


def test_killed_sign_up_is_completed(
    sign_up, confirm, mails, keeper, database, app_engine, sql, monkeypatch, platform_session
):
    """The API is killed before and after each commit. The result is one complete tenant, one mail and one self-test."""
    sign_up()
    with monkeypatch.context() as patch:
        patch.setattr(provisioning, "provision_trial", _fail)
        assert confirm().status_code == 201

    def finish() -> None:
        engine = make_engine(database.app_url)
        with session_scope(PlatformScope(), engine=engine) as session:
            sign_up_id = session.scalars(select(SignUp.id)).one()
        given = {"signing": keeper.signing, "radius_host": keeper.radius_host, "engine": engine}
        provisioning.provision_trial(sign_up_id, keeper.context, **given)

    for _ in deaths(finish):
        # A minute later, the worker cancels the pending certificate.
        for table in ("certificates", "authority_intents"):
            sql(f"UPDATE {table} SET created_at = created_at - interval '2 minutes'")
        with platform_session() as session:
            tenant_ids = session.scalars(select(Tenant.id)).all()
        for tenant_id in tenant_ids:
            with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
                intents.abandon_stale_intents(session, actor="worker", tenant_id=tenant_id, now=utc_now())
    assert mails.templates().count("trial-ready") == 1
    with platform_session() as session:
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


def test_broken_sign_up_does_not_block_other_trials(
    sign_up, confirm, mails, keeper, worker_engine, platform_session, monkeypatch
):
    """This holds for any error in the data of the sign-up or in Admit's code."""
    sign_up()
    confirm()
    sign_up(email="bob@bolt.example")

    def fail(*_: object, **__: object) -> str:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(provisioning, "provision_trial", _fail)
        confirm()
    monkeypatch.setattr(lifecycle, "provision_trial", fail)
    with platform_session() as session:
        session.execute(update(SignUp).values(due_at=utc_now() - timedelta(seconds=1), attempts=19))
        ends_at = session.scalars(select(Trial.ends_at)).one()
    lifecycle.process_trials(keeper, now=ends_at, engine=worker_engine)
    assert "trial-ended" in mails.templates()
    with platform_session() as session:
        assert set(session.scalars(select(SignUp.state))) == {"done", "failed"}
