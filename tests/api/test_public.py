from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Engine

from api.public.main import create_app
from nac.settings import load_settings
from tests.api.served import served
from tests.factories.certificates import Certified, certify, write_master_key
from tests.factories.tenancy import make_platform, make_tenant
from tests.postgres import Database


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    variables = {
        "ADMIT_VAR_DIR": "/nonexistent",
        "ADMIT_MASTER_KEY_FILE": str(write_master_key(tmp_path)),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_REDIS_URL": "unix:///nonexistent",
    }
    with served(create_app(load_settings(variables))) as client:
        yield client


@pytest.fixture
def alpha(app_engine: Engine, cell_engine: Engine) -> Certified:
    return certify(app_engine, make_tenant(app_engine, make_platform(app_engine, cell_engine), "alpha").id)


def test_authority_is_handed_to_anybody(client: httpx.Client, alpha: Certified):
    issuing = alpha.authorities.issuing
    reply = client.get(f"/ca/{issuing.id}.cer")
    assert (reply.status_code, reply.content) == (200, issuing.certificate_der)
    assert reply.headers["content-type"] == "application/pkix-cert"


@pytest.mark.parametrize("path", [f"/ca/{UUID(int=1)}.cer", "/v1/tenants", "/openapi.json"])
def test_what_is_not_public_is_not_there(client: httpx.Client, path: str):
    reply = client.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")
