from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from api.enrolment.main import create_app as create_enrolment
from api.public.main import create_app as create_public
from nac.kit.settings import Settings
from tests.api.app_server import serve_app
from tests.factories.certificates import Certified


def test_authority_certificate_is_public(client: httpx.Client, alpha: Certified):
    issuing = alpha.authorities.issuing
    reply = client.get(f"/ca/{issuing.id}.cer")
    assert (reply.status_code, reply.content) == (200, issuing.certificate_der)
    assert reply.headers["content-type"] == "application/pkix-cert"
    assert client.head(f"/ca/{issuing.id}.cer").headers["content-length"] == str(len(issuing.certificate_der))


@pytest.mark.parametrize("path", [f"/ca/{UUID(int=1)}.cer", "/v1/tenants", "/openapi.json"])
def test_private_routes_are_not_found(client: httpx.Client, path: str):
    reply = client.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(
    ("create", "path"),
    [
        (create_public, f"/crl/{UUID(int=1)}.crl"),
        (create_public, "/scep/alpha?operation=GetCACert"),
        (create_enrolment, "/.well-known/est/alpha/cacerts"),
    ],
)
def test_anonymous_caller_cannot_see_the_database_address(
    public_settings: Settings, tmp_path: Path, create: Callable[..., Any], path: str, caplog: pytest.LogCaptureFixture
):
    away = replace(public_settings, database_url=f"postgresql://admit_app@/admit?host={tmp_path}")
    with serve_app(create(away)) as client:
        reply = client.get(path)
    assert reply.status_code == 503
    assert "The database does not respond." in reply.text
    assert str(tmp_path) not in reply.text
    assert str(tmp_path) in caplog.text
