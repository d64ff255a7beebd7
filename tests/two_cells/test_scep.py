"""A device enrolled by SCEP connects. Server, cell, radiusd and eapol_test are real."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from api.public.main import create_app
from nac.certificates.enrolment import service as enrolment
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.settings import load_settings
from pki.bundles import certificates_pem
from pki.keys import key_pem
from tests.agent.cell_process import RunningCell, RunningTenant, run_eapol_test
from tests.api.app_server import serve_app
from tests.factories.tenancy import ACTOR
from tests.postgres import Database
from tests.scep.client import Device
from tests.scep.conftest import Server

pytestmark = pytest.mark.early


@dataclass(frozen=True)
class Office:
    tenant: RunningTenant
    scep: Server
    folder: Path

    def challenge(self) -> str:
        with session_scope(TenantScope(self.tenant.id), engine=self.tenant.engine) as session:
            made = enrolment.create_secret(
                session,
                actor=ACTOR,
                tenant_id=self.tenant.id,
                kind="scep",
                any_name=True,
                profile="eap-client-device",
                now=utc_now(),
            )
        return made.token.reveal()

    def admits(self, device: Device) -> bool:
        authorities = [
            certificate for certificate in self.scep.authorities() if certificate.issuer == certificate.subject
        ]
        files = {
            "ca": certificates_pem(authorities),
            "cert": device.identity.public_bytes(Encoding.PEM),
            "key": key_pem(device.key),
        }
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        return run_eapol_test(self.tenant, self.folder, device.common_name)[0]


@pytest.fixture
def office(
    cell: RunningCell, add_tenant: Callable[[], RunningTenant], database: Database, tmp_path: Path
) -> Iterator[Office]:
    variables = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.public_url,
        "ADMIT_REDIS_URL": "unix:///nonexistent",
        "ADMIT_PUBLIC_REQUESTS_PER_SECOND": "0",
        "ADMIT_MASTER_KEY_FILE": str(cell.folder / "master.key"),
    }
    tenant = add_tenant()
    with serve_app(create_app(load_settings(variables))) as http:
        yield Office(tenant, Server(http, f"/scep/{tenant.slug}"), tmp_path)


def test_enrolled_and_renewed_certificates_are_admitted(office: Office):
    first = Device("laptop")
    assert not office.admits(first)
    certificate = office.scep.obtain(first, office.challenge())
    enrolled = Device("laptop", key=first.key, identity=certificate)
    office.tenant.wait_live()
    assert office.admits(enrolled)
    successor = Device("laptop")
    reply = office.scep.ask(enrolled.renew(office.scep.registration(), successor.key))
    successor.identity = reply.certificate(enrolled)
    office.tenant.wait_live()
    assert office.admits(successor)
    # The previous certificate remains valid until it expires or is revoked.
    assert office.admits(enrolled)
