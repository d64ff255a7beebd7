"""Quotas under concurrent requests."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.orm import Session

from nac.accounts import api_tokens
from nac.accounts import custom_roles as roles
from nac.accounts.sign_in import passkeys
from nac.accounts.sign_in.passkeys import RelyingParty
from nac.core.access.grants import Owner
from nac.core.jobs import service as jobs
from nac.inventory import groups
from nac.inventory.identity_sources import service as identities
from nac.kit.clock import utc_now
from nac.kit.db import PersonScope, session_scope
from nac.kit.errors import Conflict
from nac.kit.outbound.reach import OutboundReach
from nac.logs.exports import service as exports
from nac.models import Job, Person
from nac.onboarding.self_tests import service as self_tests
from nac.onboarding.templates import service as templates
from tests.accounts.conftest import Field, Within, whole
from tests.factories.tenancy import ACTOR, seal
from tests.sign_in.authenticator import ORIGIN, Authenticator
from tests.sign_in.conftest import ann, make_person  # noqa: F401 -- fixtures

_AT_ONCE = 20
_MOST = 3
Make = Callable[[Session, Owner, int], object]


def token(session: Session, owner: Owner, number: int) -> object:
    ends = utc_now() + timedelta(days=1)
    return api_tokens.create_token(session, **whole(owner), name="x", permissions=["endpoint.read"], expires_at=ends)


def role(session: Session, owner: Owner, number: int) -> object:
    given = {"slug": f"role-{number}", "name": "x", "permissions": ["endpoint.read"]}
    return roles.create_role(session, **whole(owner), **given)


def job(session: Session, owner: Owner, number: int) -> object:
    return jobs.start_job(session, actor=ACTOR, owner=owner, kind="x", title="x", input={}, needs=(), seal=seal)


def self_test(session: Session, owner: Owner, number: int) -> object:
    return self_tests.start_self_test(session, actor=ACTOR, tenant_id=owner.tenant_id)


def export(session: Session, owner: Owner, number: int) -> object:
    now = utc_now()
    given = {"log": "auth", "format": "csv", "since": now - timedelta(days=1), "until": now}
    return exports.start_export(session, actor=ACTOR, tenant_id=owner.tenant_id, **given)


def identity_source(session: Session, owner: Owner, number: int) -> object:
    given: dict[str, Any] = {
        "name": f"source-{number}",
        "kind": "ldap",
        "settings": {"urls": ["ldaps://ldap.example.com"], "base_dn": "dc=example,dc=com"},
        "secret": None,
    }
    return identities.create_source(
        session, actor=ACTOR, tenant_id=owner.tenant_id, seal=seal, reach=OutboundReach(()), **given
    )


def template(session: Session, owner: Owner, number: int) -> object:
    return templates.create_template(session, actor=ACTOR, msp_id=owner.msp_id, slug=f"template-{number}")


def endpoint_group(session: Session, owner: Owner, number: int) -> object:
    return groups.ENDPOINT_GROUPS.create(session, actor=ACTOR, tenant_id=owner.tenant_id, name=f"group-{number}")


def user_groups(session: Session, owner: Owner, number: int) -> object:
    named = [f"group-{number}"]
    return groups.USER_GROUPS.create_many(session, actor=ACTOR, tenant_id=owner.tenant_id, names=named)


_KINDS = (
    (groups, "MAX_GROUPS", endpoint_group, "alpha"),
    (groups, "MAX_GROUPS", user_groups, "alpha"),
    (api_tokens, "MAX_TOKENS_PER_OWNER", token, "acme"),
    (roles, "MAX_ROLES_PER_OWNER", role, "alpha"),
    (jobs, "MAX_WAITING", job, "alpha"),
    (self_tests, "MAX_OPEN", self_test, "alpha"),
    (exports, "MAX_WAITING", export, "alpha"),
    (identities, "MAX_SOURCES", identity_source, "alpha"),
    (templates, "MAX_TEMPLATES", template, "acme"),
)


def create_at_once(make: Callable[[int], object]) -> int:
    """Start several calls at the same moment and collect the rejections."""
    begin = Barrier(_AT_ONCE)

    def one(number: int) -> bool:
        begin.wait()
        try:
            make(number)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(one, range(_AT_ONCE)))


@pytest.mark.parametrize(("service", "bound", "make", "whose"), _KINDS, ids=[kind[2].__name__ for kind in _KINDS])
def test_twenty_concurrent_requests_respect_the_quota(
    within: Within, field: Field, monkeypatch: pytest.MonkeyPatch, service: Any, bound: str, make: Make, whose: str
) -> None:
    monkeypatch.setattr(service, bound, _MOST)
    owner: Owner = getattr(field, whose)

    def add(number: int) -> None:
        with within(owner) as session:
            make(session, owner, number)

    for number in range(_MOST - 1):
        add(100 + number)
    assert create_at_once(add) == 1


def test_concurrent_passkeys_respect_the_quota(
    app_engine: Engine,
    ann: Person,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passkeys, "MAX_PASSKEYS", 2)
    party = RelyingParty(ORIGIN)

    def add(number: int) -> None:
        nonce = passkeys.make_nonce()
        credential = Authenticator().create(
            passkeys.build_registration_options(party, person=ann, present=(), nonce=nonce)
        )
        with session_scope(PersonScope(ann.id), engine=app_engine) as session:
            given = {"person": ann, "party": party, "nonce": nonce, "credential": credential}
            passkeys.create_passkey(session, actor=ACTOR, name=f"key {number}", **given)

    assert create_at_once(add) == 2


def test_retried_jobs_count_against_the_quota(
    within: Within, field: Field, owner_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_WAITING", 2)
    with within(field.alpha) as session:
        failed = [job(session, field.alpha, number).id for number in range(2)]
    with owner_engine.begin() as connection:
        connection.execute(update(Job).values(state="failed", ended_at=utc_now()))
    with within(field.alpha) as session:
        job(session, field.alpha, 3)
    for job_id, is_refused in zip(failed, (False, True), strict=True):
        try:
            with within(field.alpha) as session:
                jobs.retry_job(session, actor=ACTOR, owner=field.alpha, job_id=job_id)
        except Conflict:
            assert is_refused
        else:
            assert not is_refused
