"""Certificate revocation lists and authority certificates over HTTP."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from cryptography import x509
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from api.enrolment.main import create_app as create_enrolment
from api.public.main import create_app as create_public
from nac.certificates.public_lookups import PublishedList, require_published_list
from nac.certificates.service import revoke_certificate
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.settings import Settings
from tests.api.app_server import serve_app
from tests.api.conftest import publish_all
from tests.factories.certificates import Certified, certify
from tests.factories.tenancy import ACTOR, Platform, make_tenant


def test_root_and_issuing_crl_are_public(client: httpx.Client, alpha: Certified):
    for authority in (alpha.authorities.root, alpha.authorities.issuing):
        reply = client.get(f"/crl/{authority.id}.crl")
        assert (reply.status_code, reply.headers["content-type"]) == (200, "application/pkix-crl")
        crl = x509.load_der_x509_crl(reply.content)
        certificate = x509.load_der_x509_certificate(authority.certificate_der)
        assert crl.is_signature_valid(certificate.public_key())  # type: ignore[arg-type]
        assert reply.headers["cache-control"] == "public, max-age=300, must-revalidate"
        head = client.head(f"/crl/{authority.id}.crl")
        assert (head.headers["content-length"], head.content) == (str(len(reply.content)), b"")


def test_certificate_lists_the_serving_addresses(client: httpx.Client, app_engine: Engine, alpha: Certified):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        issued = alpha.issue(session)
    for certificate, issuer in ((issued.certificate, issued.intermediates[0]), (issued.intermediates[0], issued.root)):
        access = certificate.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
        points = certificate.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
        addresses = {item.access_method._name: item.access_location.value for item in access}
        (point,) = points
        assert point.full_name is not None
        paths = [
            address.removeprefix("http://status.admit.example")
            for address in (addresses["caIssuers"], addresses["OCSP"], point.full_name[0].value)
        ]
        assert x509.load_der_x509_certificate(client.get(paths[0]).content) == issuer
        assert client.post(paths[1], content=b"").headers["content-type"] == "application/ocsp-response"
        assert x509.load_der_x509_crl(client.get(paths[2]).content).issuer == issuer.subject


@pytest.fixture
def publish_revocation(app_engine: Engine, worker_engine: Engine, alpha: Certified) -> Callable[[], None]:
    """Revoke a new certificate, and publish the second CRL."""

    def publish_revocation() -> None:
        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            given: Any = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "now": alpha.now}
            revoke_certificate(session, serial=alpha.issue(session).serial.hex(), **given)
        publish_all(worker_engine, now=utc_now() + timedelta(seconds=5))

    return publish_revocation


def require_second(reply: httpx.Response) -> None:
    assert (reply.status_code, reply.headers["etag"]) == (200, '"2"')
    assert len(x509.load_der_x509_crl(reply.content)) == 1


def test_unchanged_crl_returns_not_modified(
    client: httpx.Client, alpha: Certified, publish_revocation: Callable[[], None]
) -> None:
    path = f"/crl/{alpha.authorities.issuing.id}.crl"
    first = client.get(path).headers
    conditions = ({"If-None-Match": first["etag"]}, {"If-Modified-Since": first["last-modified"]})
    for condition in conditions:
        again = client.get(path, headers=condition)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", '"1"')
    publish_revocation()
    for condition in conditions:
        require_second(client.get(path, headers=condition))


def test_crl_replaced_during_a_request_is_the_new_one(
    client: httpx.Client, alpha: Certified, publish_revocation: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(session: Session, *, authority_id: UUID) -> PublishedList:
        found = require_published_list(session, authority_id=authority_id)
        publish_revocation()
        return found

    monkeypatch.setattr("api.public.authority_files.require_published_list", overtaken)
    require_second(client.get(f"/crl/{alpha.authorities.issuing.id}.crl"))


def test_conditional_headers_follow_http(client: httpx.Client, alpha: Certified) -> None:
    tomorrow = format_datetime(utc_now() + timedelta(days=1))
    for headers, status in (
        ({"If-None-Match": '"7", W/"1"'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"11"'}, 200),
        ({"If-None-Match": "nonsense"}, 200),
        ({"If-Modified-Since": "yesterday"}, 200),
        ({"If-Modified-Since": tomorrow}, 200),
        ({"If-Modified-Since": f"Mon, 1 Jan {'9' * 20} 00:00:00 GMT"}, 200),
        # The ETag takes precedence over the date (RFC 9110 13.2.2).
        ({"If-None-Match": '"7"', "If-Modified-Since": tomorrow}, 200),
    ):
        assert client.get(f"/crl/{alpha.authorities.root.id}.crl", headers=headers).status_code == status, headers


def test_unpublished_or_unknown_authority_is_not_found(client: httpx.Client, app_engine: Engine, platform: Platform):
    new = certify(app_engine, make_tenant(app_engine, platform, "new").id)
    for authority_id in (new.authorities.root.id, uuid4()):
        reply = client.get(f"/crl/{authority_id}.crl")
        assert (reply.status_code, reply.json()["code"]) == (404, "list-not-found")


def test_invalid_and_private_paths_are_not_found(client: httpx.Client) -> None:
    for path in ("/crl/x.crl", "/crl/%00.crl", "/crl/.crl", "/ca/x.cer", "/crl/1"):
        assert client.get(path).status_code in (404, 422)
    for path in (f"/ca/{UUID(int=1)}.cer", "/v1/tenants", "/openapi.json"):
        reply = client.get(path)
        assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")


def test_authority_certificate_is_public(client: httpx.Client, alpha: Certified):
    issuing = alpha.authorities.issuing
    reply = client.get(f"/ca/{issuing.id}.cer")
    assert (reply.status_code, reply.content) == (200, issuing.certificate_der)
    assert reply.headers["content-type"] == "application/pkix-cert"
    assert client.head(f"/ca/{issuing.id}.cer").headers["content-length"] == str(len(issuing.certificate_der))


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
