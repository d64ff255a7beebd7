"""The process that creates a tenant is killed between its commits. A retry completes or reports the tenant."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, select, text

from api import application
from api.main import create_app
from nac.certificates.issuance import SERVER_PROFILE, get_dns_names
from nac.certificates.server_renewal import expected_server_names
from nac.kit.db import TenantScope, make_engine, session_scope
from nac.kit.ids import TenantId
from nac.models import Certificate, CertificateAuthority, Site
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import bearer
from tests.api.v1.responses import created, refusal
from tests.commit_kills import AFTER, BEFORE, killed_at_commit
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell
from tests.postgres import Database

NAMES = ["radius.hill.example", "radius2.hill.example"]
AUTHORITIES = select(CertificateAuthority.kind).where(CertificateAuthority.status == "active")


@pytest.fixture
def roomy(api: httpx.Client, cell_engine: Engine) -> httpx.Client:
    give_dictionary(cell_engine, make_cell(cell_engine, name="cell-2", slots=16, first_port=20000))
    return api


def tenant_body(slug: str, **more: object) -> dict[str, object]:
    return {"msp": "acme", "slug": slug, "server_names": NAMES, **more}


def killed_requests(database: Database, folder: Path, token: str) -> Iterator[str]:
    """The slug and idempotency key of each request whose process was killed."""
    for at in range(1, 20):
        for when in (BEFORE, AFTER):
            slug = f"hill-{at}-{when.partition('_')[0]}"

            def ask(slug: str = slug) -> None:
                application.make_engine = make_engine
                with serve_app(create_app(settings_of_public(database, folder))) as client:
                    headers = bearer(token) | {"Idempotency-Key": slug}
                    assert client.post("/v1/tenants", json=tenant_body(slug), headers=headers).status_code == 201

            if not killed_at_commit(ask, at=at, when=when):
                return
            yield slug


def a_minute_later(owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE idempotency_keys SET created_at = created_at - interval '2 minutes'"))


@pytest.mark.long
def test_retry_with_the_same_key_completes_the_tenant(
    roomy: httpx.Client, database: Database, tmp_path: Path, msp_token: str, app_engine: Engine, owner_engine: Engine
) -> None:
    begun = []
    for slug in killed_requests(database, tmp_path, msp_token):
        there = roomy.get(f"/v1/tenants/{slug}")
        key = {"Idempotency-Key": slug}
        if there.status_code == 200:
            refused = roomy.post("/v1/tenants", json=tenant_body(slug))
            assert refusal(refused) == (409, "already-exists")
            assert "getTenant" in refused.json()["remedy"], refused.text
            first = roomy.post("/v1/tenants", json=tenant_body(slug), headers=key)
            begun.append((refused.json()["detail"].partition("UTC: ")[2], first.status_code))
            a_minute_later(owner_engine)
            # The idempotency key refers to the tenant that the request created.
            other = roomy.post("/v1/tenants", json=tenant_body(slug, name="Another"), headers=key)
            assert refusal(other) == (422, "key-reused")
        again = roomy.post("/v1/tenants", json=tenant_body(slug), headers=key)
        assert (again.status_code, again.json()["slug"]) == (201, slug), again.text
        if there.status_code == 200:
            assert again.json()["id"] == there.json()["id"]
        replayed = roomy.post("/v1/tenants", json=tenant_body(slug), headers=key)
        assert (replayed.json(), replayed.headers["idempotency-replayed"]) == (again.json(), "true")
        tenant_id = TenantId(again.json()["id"])
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            assert sorted(session.scalars(AUTHORITIES)) == ["issuing", "root"], slug
            assert session.scalars(select(Site.policy_id)).one() is not None
            server = select(Certificate).where(Certificate.profile == SERVER_PROFILE, Certificate.status == "valid")
            assert get_dns_names(session.scalars(server).one()) == NAMES
    # Tenants without authorities, with authorities only, and complete except for the response.
    unfinished = ("the tenant has no certificates yet.", 409)
    assert set(begun) == {unfinished, ("it is active.", 201)}
    assert begun.count(unfinished) >= 2


def test_unfinished_tenant_keeps_its_names_and_can_be_deleted(
    roomy: httpx.Client, database: Database, tmp_path: Path, msp_token: str, app_engine: Engine, owner_engine: Engine
) -> None:
    """The worker creates the certificate with the requested names. The key of a deleted tenant creates nothing."""
    for slug in killed_requests(database, tmp_path, msp_token):
        there = roomy.get(f"/v1/tenants/{slug}")
        if there.status_code != 200:
            continue
        tenant_id = TenantId(there.json()["id"])
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            assert expected_server_names(session, tenant_id) == NAMES
        assert roomy.delete(f"/v1/msps/acme/tenants/{slug}").status_code == 200
        a_minute_later(owner_engine)
        again = roomy.post("/v1/tenants", json=tenant_body(slug), headers={"Idempotency-Key": slug})
        assert refusal(again) == (409, "conflict")
        assert "is deleting the tenant" in again.json()["detail"]
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            assert not session.scalars(AUTHORITIES).all()
        return
    raise AssertionError("nothing was begun")


def test_invalid_name_leaves_no_tenant(api: httpx.Client) -> None:
    for names in (["not a name"], [""], ["radius.example", "*.example..x"], ["x" * 253]):
        refused = api.post("/v1/tenants", json={"msp": "acme", "slug": "hill", "server_names": names})
        assert (refused.status_code, refused.json().get("place")) == (422, "server_names"), refused.text
        assert api.get("/v1/tenants/hill").status_code == 404


def test_taken_slug_is_reported_with_a_remedy(api: httpx.Client, operator: dict[str, str]) -> None:
    created(api.post("/v1/tenants", json={"msp": "acme", "slug": "hill"}))
    again = api.post("/v1/tenants", json={"msp": "acme", "slug": "hill"})
    assert ("it is active." in again.json()["detail"], again.json()["place"]) == (True, "slug")
    assert api.delete("/v1/msps/acme/tenants/hill").status_code == 200
    deleting = api.post("/v1/tenants", json={"msp": "acme", "slug": "hill"})
    assert ("the tenant is being deleted." in deleting.json()["detail"], deleting.status_code) == (True, 409)
    # If the slug belongs to another MSP, the error reveals only that it is taken.
    created(api.post("/v1/msps", headers=operator, json={"slug": "other"}))
    others = api.post("/v1/tenants", headers=operator, json={"msp": "other", "slug": "alpha"})
    assert others.json()["detail"] == "Tenant 'alpha' already exists."
