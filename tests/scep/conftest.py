from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs7
from fastapi import FastAPI
from sqlalchemy import Engine, func, select

from api.public.main import create_app
from nac.certificates import service as certificates
from nac.certificates.scep import registration_authority
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.settings import Settings
from nac.models import Certificate
from pki.keys import generate_key as make_key
from tests.api.app_server import serve_app, settings_of_public
from tests.enrolment.conftest import make_secret
from tests.factories.certificates import Certified
from tests.factories.tenancy import ACTOR
from tests.postgres import Database
from tests.scep.client import KEYS, Device, Reply, read_reply, rsa_key


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    KEYS.rewind()
    monkeypatch.setattr(
        registration_authority, "generate_key", lambda kind: rsa_key() if kind == "rsa-2048" else make_key(kind)
    )


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> Settings:
    # The address of the webhook that the tests run.
    own = {"ADMIT_DATABASE_URL": database.public_url, "ADMIT_OUTBOUND_NETWORKS": "127.0.0.0/8 ::1"}
    return settings_of_public(database, tmp_path, **own)


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    return create_app(settings)


@pytest.fixture
def http(app: FastAPI) -> Iterator[httpx.Client]:
    with serve_app(app) as client:
        yield client


@dataclass
class Server:
    """The SCEP server of one tenant, as devices use it."""

    http: httpx.Client
    path: str

    def authorities(self) -> list[x509.Certificate]:
        reply = self.http.get(self.path, params={"operation": "GetCACert"})
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "application/x-x509-ca-ra-cert"
        return pkcs7.load_der_pkcs7_certificates(reply.content)

    def registration(self) -> x509.Certificate:
        """The certificate to which devices encrypt messages."""
        [found] = [
            certificate
            for certificate in self.authorities()
            if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        ]
        return found

    def ask(self, message: bytes) -> Reply:
        reply = self.http.post(self.path, params={"operation": "PKIOperation"}, content=message)
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "application/x-pki-message"
        return read_reply(reply.content)

    def enrol(self, device: Device, challenge: str, **changes: Any) -> Reply:
        return self.ask(device.enrol(self.registration(), challenge, **changes))

    def obtain(self, device: Device, challenge: str, **changes: Any) -> x509.Certificate:
        reply = self.enrol(device, challenge, **changes)
        assert reply.status == "0", reply.text
        return reply.certificate(device)


@pytest.fixture
def server(http: httpx.Client, alpha: Certified) -> Server:
    return Server(http, "/scep/alpha")


@pytest.fixture
def other_server(http: httpx.Client, bravo: Certified) -> Server:
    return Server(http, "/scep/bravo")


def make_challenge(app_engine: Engine, certified: Certified, **changes: Any) -> str:
    options = {"kind": "scep", "now": utc_now(), "life": timedelta(hours=1)} | changes
    return make_secret(app_engine, certified, **options).token.reveal()


@pytest.fixture
def challenge(app_engine: Engine, alpha: Certified) -> str:
    return make_challenge(app_engine, alpha)


def issued(app_engine: Engine, certified: Certified) -> int:
    """The tenant's client certificates, signed or not."""
    with session_scope(TenantScope(certified.tenant_id), engine=app_engine) as session:
        query = select(func.count()).where(Certificate.profile.like("eap-client-%")).select_from(Certificate)
        return session.scalar(query) or 0


def revoke(app_engine: Engine, certified: Certified, certificate: x509.Certificate) -> None:
    named = {"actor": ACTOR, "tenant_id": certified.tenant_id, "serial": f"{certificate.serial_number:x}"}
    with session_scope(TenantScope(certified.tenant_id), engine=app_engine) as session:
        certificates.revoke_certificate(session, now=utc_now(), **named)
