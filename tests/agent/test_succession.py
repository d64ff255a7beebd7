"""New authorities and server certificates in a running cell, as eapol_test sees them. radiusd does not restart."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from cryptography import x509
from sqlalchemy import Engine

from nac.certificates import profiles, rollover, server_renewal
from nac.certificates.service import build_pem_files, issue_client, issue_server, require_authority
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from pki.bundles import certificates_pem
from radius.agent.replica import sync
from tests.agent.cell_process import (
    RunningCell,
    RunningTenant,
    run_eapol_test,
    running_cell,
    running_tenant,
    server_name,
)
from tests.factories.tenancy import ACTOR
from tests.postgres import Cluster, Database, Engines

pytestmark = pytest.mark.early

_numbers = count(1)


@dataclass(frozen=True)
class Device:
    folder: Path
    serial: str

    def visit(self, tenant: RunningTenant, trusts: Path | None = None) -> tuple[bool, list[str]]:
        """Connect with eapol_test.

        Returns whether the device was admitted, and the server's serial numbers (hex), leaf first.
        """
        admitted, shown = run_eapol_test(tenant, self.folder, "laptop", trusted=trusts)
        return admitted, [f"{one.serial_number:032x}" for one in shown]


class Alpha:
    def __init__(self, cell: RunningCell, tenant: RunningTenant, folder: Path) -> None:
        self.cell, self.tenant, self.folder = cell, tenant, folder
        self.engine = tenant.engine
        self.scope = TenantScope(self.tenant.id)

    def device(self, name: str) -> Device:
        with session_scope(self.scope, engine=self.engine) as session:
            issued = issue_client(
                session,
                actor=ACTOR,
                tenant_id=self.tenant.id,
                profile="eap-client-device",
                common_name=name,
                signing=self.cell.signing,
                now=utc_now(),
            )
        folder = self.folder / name
        folder.mkdir()
        for kind, content in build_pem_files(issued).items():
            (folder / kind).write_bytes(content)
        self.tenant.wait_live()
        return Device(folder, issued.serial.hex())

    def roll_over(self, *, of_root: bool = False) -> rollover.RolloverResult:
        with session_scope(self.scope, engine=self.engine) as session:
            plan = rollover.plan_rollover(session, tenant_id=self.tenant.id, signing=self.cell.signing, of_root=of_root)
        with session_scope(self.scope, engine=self.engine) as session:
            done = rollover.execute_rollover(session, plan, actor=ACTOR, signing=self.cell.signing, now=utc_now())
        self.tenant.wait_live()
        return done

    def issue_server(self, key: str) -> str:
        """Issue a server certificate with a key of this type. Returns the serial number."""
        with session_scope(self.scope, engine=self.engine) as session:
            choice = {"validity_days": 300, "key": key}
            profiles.update_profile(session, actor=ACTOR, tenant_id=self.tenant.id, name="eap-server", choice=choice)
            names = [server_name(self.tenant)]
            made = {"actor": ACTOR, "tenant_id": self.tenant.id, "signing": self.cell.signing, "now": utc_now()}
            serial = issue_server(session, dns_names=names, **made).serial.hex()
        self.tenant.wait_live()
        return serial

    def renew(self) -> str:
        """Renew the server certificate as the worker does. Returns the new serial number."""
        with session_scope(self.scope, engine=self.engine) as session:
            plan = server_renewal.plan_renewal(
                session, actor=ACTOR, tenant_id=self.tenant.id, signing=self.cell.signing, now=utc_now()
            )
            assert plan is not None
        with session_scope(self.scope, engine=self.engine) as session:
            row = server_renewal.execute_renewal(session, plan, actor=ACTOR, signing=self.cell.signing, now=utc_now())
            serial = row.serial.hex()
        self.tenant.wait_live()
        return serial

    def change_without_trigger(self, statement: LiteralString) -> None:
        """Change rows without a trigger, as the passage of time does."""
        with psycopg.connect(self.cell.database.superuser_url) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(statement + " AND tenant_id = %s", [self.tenant.id])

    def root_file(self, which: str) -> Path:
        with session_scope(self.scope, engine=self.engine) as session:
            found = require_authority(session, tenant_id=self.tenant.id, which=which)
        path = self.folder / f"root-{found.id}.pem"
        path.write_bytes(certificates_pem([x509.load_der_x509_certificate(found.certificate_der)]))
        return path


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Database:
    """Database that all tests of this file share. It is not emptied between tests."""
    return cluster.create_database("succession")


@pytest.fixture(scope="module")
def cell(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCell]:
    with running_cell(database, tmp_path_factory.mktemp("cell"), slots=12) as cell:
        yield cell


@pytest.fixture(scope="module")
def engines(database: Database) -> Iterator[Engines]:
    engines = Engines(database)
    yield engines
    engines.dispose()


@pytest.fixture
def alpha(cell: RunningCell, app_engine: Engine, tmp_path: Path) -> Alpha:
    return Alpha(cell, running_tenant(cell, app_engine, f"alpha-{next(_numbers)}"), tmp_path)


def test_old_and_new_issuing_cas_admit_without_restart(alpha: Alpha) -> None:
    started = alpha.cell.radiusds
    old_device = alpha.device("old")
    admitted, shown = old_device.visit(alpha.tenant)
    assert admitted
    done = alpha.roll_over()
    new_device = alpha.device("new")
    issuer = x509.load_pem_x509_certificate((new_device.folder / "cert").read_bytes()).issuer
    assert issuer == x509.load_der_x509_certificate(done.issuing.certificate_der).subject
    # Certificates of the old authority stay in use, including the server's certificate.
    assert old_device.visit(alpha.tenant) == (True, shown)
    assert new_device.visit(alpha.tenant) == (True, shown)
    assert alpha.cell.radiusds == started


def test_renewed_server_certificate_is_used_from_its_start_day(alpha: Alpha) -> None:
    started = alpha.cell.radiusds
    device = alpha.device("laptop")
    before = device.visit(alpha.tenant)
    assert before[0]
    alpha.change_without_trigger(
        "UPDATE certificates SET not_before = now() - interval '780 days', not_after = now() + interval '40 days'"
        " WHERE key_sealed IS NOT NULL"
    )
    serial = alpha.renew()
    # The validity of the renewed certificate starts in two weeks.
    assert device.visit(alpha.tenant) == before
    alpha.change_without_trigger("UPDATE certificates SET present_from = now() WHERE present_from IS NOT NULL")
    alpha.cell.wait(lambda: device.visit(alpha.tenant)[1][0] == serial, 3 * sync.SERVER_CERTIFICATE_SECONDS)
    admitted, shown = device.visit(alpha.tenant)
    assert (admitted, shown[0] != before[1][0], shown[1:]) == (True, True, before[1][1:])
    assert alpha.cell.radiusds == started


def test_new_and_old_roots_both_admit_their_devices(alpha: Alpha) -> None:
    started = alpha.cell.radiusds
    devices, roots = [alpha.device("old")], [alpha.root_file("root")]
    _, before = devices[0].visit(alpha.tenant)
    for name in ("new", "newest"):
        done = alpha.roll_over(of_root=True)
        devices.append(alpha.device(name))
        roots.append(alpha.root_file("root"))
    assert len(set(roots)) == 3
    assert done.server is not None
    for device, root in [*zip(devices, roots, strict=True), (devices[0], roots[2]), (devices[2], roots[0])]:
        admitted, shown = device.visit(alpha.tenant, trusts=root)
        assert (admitted, shown[0]) == (True, done.server.serial.hex())
    assert before[0] != done.server.serial.hex()
    assert alpha.cell.radiusds == started


@pytest.mark.long
def test_server_certificate_of_another_key_type_is_used(alpha: Alpha) -> None:
    """With certificates of both types, OpenSSL never sends an RSA certificate to clients that accept ECDSA.

    This test is last, because the other tests verify that radiusd is not replaced.
    """
    device = alpha.device("laptop")
    assert device.visit(alpha.tenant)[0]
    radiusds = len(alpha.cell.radiusds)
    for key in ("rsa-2048", "ecdsa-p256"):
        serial = alpha.issue_server(key)
        alpha.cell.wait(lambda serial=serial: device.visit(alpha.tenant)[1][:1] == [serial], 60)
        assert device.visit(alpha.tenant)[0]
    assert len(alpha.cell.radiusds) > radiusds
