"""A tenant whose making is killed between its commits: asked for again it is finished, or told."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from api import application
from api.main import create_app
from nac.accounts.owners import Owner
from nac.certificates.issuance import SERVER_PROFILE, get_dns_names
from nac.certificates.server_renewal import expected_server_names
from nac.db import TenantScope, make_engine, session_scope
from nac.ids import TenantId
from nac.models import Certificate, CertificateAuthority, Site, Tenant
from tests.api.served import served, settings_of_public
from tests.api.v1.conftest import MakeToken
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell
from tests.killed import AFTER, BEFORE, killed_at_commit
from tests.postgres import Database

NAMES = ["radius.hill.example", "radius2.hill.example"]
AUTHORITIES = select(CertificateAuthority.kind).where(CertificateAuthority.status == "active")


@pytest.fixture
def roomy(api: httpx.Client, cell_engine: Engine) -> httpx.Client:
    give_dictionary(cell_engine, make_cell(cell_engine, name="cell-2", slots=16, first_port=20000))
    return api


@pytest.fixture
def operator(api: httpx.Client, make_token: MakeToken) -> dict[str, str]:
    return {"Authorization": f"Bearer {make_token(Owner())}"}


def wanted(slug: str, **more: object) -> dict[str, object]:
    return {"msp": "acme", "slug": slug, "server_names": NAMES, **more}


def deaths_of_asking(database: Database, folder: Path, token: str) -> Iterator[str]:
    """The slug, and the key, of each request whose process was killed."""
    for at in range(1, 20):
        for when in (BEFORE, AFTER):
            slug = f"hill-{at}-{when.partition('_')[0]}"

            def ask(slug: str = slug) -> None:
                application.make_engine = make_engine
                with served(create_app(settings_of_public(database, folder))) as client:
                    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": slug}
                    assert client.post("/v1/tenants", json=wanted(slug), headers=headers).status_code == 201

            if not killed_at_commit(ask, at=at, when=when):
                return
            yield slug


def a_minute_later(owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE idempotency_keys SET created_at = created_at - interval '2 minutes'"))


@pytest.mark.long
def test_who_asks_again_by_the_same_key_gets_the_tenant_whole(
    roomy: httpx.Client, database: Database, tmp_path: Path, msp_token: str, app_engine: Engine, owner_engine: Engine
) -> None:
    begun = []
    for slug in deaths_of_asking(database, tmp_path, msp_token):
        there = roomy.get(f"/v1/tenants/{slug}")
        key = {"Idempotency-Key": slug}
        if there.status_code == 200:
            refused = roomy.post("/v1/tenants", json=wanted(slug))
            assert (refused.status_code, refused.json()["code"]) == (409, "already-exists")
            assert "getTenant" in refused.json()["remedy"], refused.text
            first = roomy.post("/v1/tenants", json=wanted(slug), headers=key)
            begun.append((refused.json()["detail"].partition("UTC: ")[2], first.status_code))
            a_minute_later(owner_engine)
            # The key is of what it has made.
            other = roomy.post("/v1/tenants", json=wanted(slug, name="Another"), headers=key)
            assert (other.status_code, other.json()["code"]) == (422, "key-reused")
        again = roomy.post("/v1/tenants", json=wanted(slug), headers=key)
        assert (again.status_code, again.json()["slug"]) == (201, slug), again.text
        if there.status_code == 200:
            assert again.json()["id"] == there.json()["id"]
        replayed = roomy.post("/v1/tenants", json=wanted(slug), headers=key)
        assert (replayed.json(), replayed.headers["idempotency-replayed"]) == (again.json(), "true")
        tenant_id = TenantId(again.json()["id"])
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            assert sorted(session.scalars(AUTHORITIES)) == ["issuing", "root"], slug
            assert session.scalars(select(Site.policy_id)).one() is not None
            server = select(Certificate).where(Certificate.profile == SERVER_PROFILE, Certificate.status == "valid")
            assert get_dns_names(session.scalars(server).one()) == NAMES
    # Without authorities, with them alone, and whole but for the answer.
    unfinished = ("its certificates do not exist yet.", 409)
    assert set(begun) == {unfinished, ("it is active.", 201)}
    assert begun.count(unfinished) >= 2


def test_worker_makes_the_server_certificate_with_the_names_that_were_asked_for(
    roomy: httpx.Client, database: Database, tmp_path: Path, msp_token: str, app_engine: Engine, owner_engine: Engine
) -> None:
    for slug in deaths_of_asking(database, tmp_path, msp_token):
        with Session(owner_engine) as session:
            tenant_id = session.scalar(select(Tenant.id).where(Tenant.slug == slug))
        if tenant_id is not None:
            with session_scope(TenantScope(TenantId(tenant_id)), engine=app_engine) as session:
                assert expected_server_names(session, TenantId(tenant_id)) == NAMES
            return
    raise AssertionError("nothing was begun")


def test_key_of_a_tenant_that_is_being_deleted_makes_nothing(
    roomy: httpx.Client, database: Database, tmp_path: Path, msp_token: str, app_engine: Engine, owner_engine: Engine
) -> None:
    for slug in deaths_of_asking(database, tmp_path, msp_token):
        there = roomy.get(f"/v1/tenants/{slug}")
        if there.status_code == 200:
            gone = roomy.delete(f"/v1/msps/acme/tenants/{slug}")
            assert gone.status_code == 200, gone.text
            a_minute_later(owner_engine)
            again = roomy.post("/v1/tenants", json=wanted(slug), headers={"Idempotency-Key": slug})
            assert (again.status_code, again.json()["code"]) == (409, "conflict")
            assert "is being deleted" in again.json()["detail"]
            with session_scope(TenantScope(TenantId(there.json()["id"])), engine=app_engine) as session:
                assert not session.scalars(AUTHORITIES).all()
            return
    raise AssertionError("nothing was begun")


@pytest.mark.parametrize("names", [["not a name"], [""], ["radius.example", "*.example..x"], ["x" * 253]])
def test_name_that_cannot_be_leaves_no_tenant_behind(api: httpx.Client, names: list[str]) -> None:
    refused = api.post("/v1/tenants", json={"msp": "acme", "slug": "hill", "server_names": names})
    assert (refused.status_code, refused.json().get("place")) == (422, "server_names"), refused.text
    assert api.get("/v1/tenants/hill").status_code == 404


def test_slug_that_is_taken_is_told_with_what_to_do(api: httpx.Client, operator: dict[str, str]) -> None:
    assert api.post("/v1/tenants", json={"msp": "acme", "slug": "hill"}).status_code == 201
    again = api.post("/v1/tenants", json={"msp": "acme", "slug": "hill"})
    assert "it is active." in again.json()["detail"]
    assert api.delete("/v1/msps/acme/tenants/hill").status_code == 200
    deleting = api.post("/v1/tenants", json={"msp": "acme", "slug": "hill"})
    assert ("it is being deleted." in deleting.json()["detail"], deleting.status_code) == (True, 409)
    # Of another MSP's it tells no more than that there is one.
    assert api.post("/v1/msps", headers=operator, json={"slug": "other"}).status_code == 201
    others = api.post("/v1/tenants", headers=operator, json={"msp": "other", "slug": "alpha"})
    assert others.json()["detail"] == "Tenant 'alpha' already exists."
