"""A whole cell on the test's database: an agent process, the radiusd that the agent starts, and tenants."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess
from pathlib import Path

from cryptography import x509
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from cli import procfs
from cli.demo.tools import RadiusServer, network_block, read_eapol_result, tls_supplicant
from nac.certificates.signing import SigningContext
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.onboarding.provisioning import provision_tenant
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy import msps
from nac.tenancy.cells import service as cells
from radius.agent.__main__ import main
from tests.factories.tenancy import ACTOR
from tests.forked_processes import start_forked
from tests.ports import free_row
from tests.postgres import Database

LOOPBACK = "127.0.0.1"
_POLICY = {
    "rules": [
        {
            "id": "certificates",
            "name": "Devices with a certificate",
            "when": {"attribute": "method", "operator": "equals", "value": "eap-tls"},
            "then": {"verdict": "permit"},
        }
    ]
}


@dataclass(frozen=True)
class RunningCell:
    folder: Path
    database: Database
    signing: SigningContext
    environment: Mapping[str, str] = field(repr=False)
    # The current radiusd last.
    agents: list[ForkProcess] = field(default_factory=list)

    def start(self) -> None:
        """Start the agent, and return when its radiusd serves or an earlier radiusd was adopted."""
        known = self._beginnings()
        agent = start_forked(main, self.environment, self.folder / "agent.log")
        self.agents.append(agent)
        self.wait(lambda: not agent.is_alive() or self._beginnings() > known)
        assert agent.is_alive(), self.log()

    def _beginnings(self) -> int:
        return len(re.findall(r"radiusd \d+ serves|took over radiusd", self.log()))

    def kill(self, *, with_radiusd: bool) -> None:
        """Kill the agent with SIGKILL. radiusd continues with the last replica."""
        self.agents[-1].kill()
        self.agents[-1].join(20)
        if with_radiusd:
            pid = int(self.radiusds[-1])
            os.kill(pid, signal.SIGKILL)
            self.wait(lambda: not procfs.is_running(pid))

    def ensure_started(self) -> None:
        if not self.agents[-1].is_alive():
            self.start()

    def stop(self) -> None:
        self.ensure_started()
        self.agents[-1].terminate()
        self.agents[-1].join(20)
        assert self.agents[-1].exitcode == 0, self.log()

    @property
    def radiusds(self) -> list[str]:
        """Process ids of every radiusd so far, the current radiusd last."""
        return re.findall(r"radiusd (\d+) serves", self.log())

    def log(self) -> str:
        return (self.folder / "agent.log").read_text()

    def wait(self, condition: Callable[[], bool], seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)


@dataclass(frozen=True)
class RunningTenant:
    id: TenantId
    slug: str
    server: RadiusServer
    engine: Engine

    def wait_live(self) -> None:
        """Wait until the cell has applied every committed change."""
        with session_scope(TenantScope(self.id), engine=self.engine) as session:
            xact = cells.get_current_xact(session)
        cells.wait_until_live(
            TenantScope(self.id), tenant_id=self.id, xact=xact, timeout_seconds=20, engine=self.engine
        )


def run_eapol_test(
    tenant: RunningTenant, folder: Path, identity: str, *, trusted: Path | None = None
) -> tuple[bool, list[x509.Certificate]]:
    """Connect with the certificate, key and authorities in the folder.

    Returns whether the device was admitted, and the server's certificates, leaf first.
    """
    supplicant = tls_supplicant(
        identity=identity,
        trusted=trusted or folder / "ca",
        certificate=folder / "cert",
        key=folder / "key",
        server_name=server_name(tenant),
    )
    (folder / "eapol.conf").write_text(network_block(supplicant))
    shown = folder / "shown.pem"
    shown.write_bytes(b"")
    server = tenant.server
    command = ["eapol_test", "-c", str(folder / "eapol.conf"), "-a", server.host, "-p", str(server.auth_port)]
    command += ["-s", server.secret, "-t", "10", "-o", str(shown)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    # eapol_test prints the certificates in verification order, from the root to the leaf.
    pem = shown.read_bytes()
    return read_eapol_result(done.stdout, 0).success, x509.load_pem_x509_certificates(pem)[::-1] if pem else []


def server_name(tenant: RunningTenant) -> str:
    return f"radius.{tenant.slug}.admit.example"


@contextmanager
def running_cell(database: Database, folder: Path, *, slots: int = 2, **settings: str) -> Iterator[RunningCell]:
    """Start a cell. `settings` are environment variables of the agent, without the prefix ADMIT_."""
    key = MasterKeyFile.create(folder / "master.key")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ADMIT_")} | {
        "ADMIT_VAR_DIR": str(folder),
        "ADMIT_DATABASE_CELL_URL": database.cell_url,
        "ADMIT_MASTER_KEY_FILE": str(key.path),
        "ADMIT_CELL_SLOTS": str(slots),
        "ADMIT_CELL_FIRST_PORT": str(free_row(udp=2 * slots + 2)),
        "ADMIT_REJECT_DELAY_SECONDS": "0",
        **{f"ADMIT_{name}": value for name, value in settings.items()},
    }
    cell = RunningCell(folder, database, SigningContext(Sealer(key), "http://status.admit.example"), environment)
    (folder / "agent.log").touch()
    try:
        cell.start()
        yield cell
    finally:
        cell.stop()


def server_of(session: Session, cell: RunningCell, tenant_id: TenantId) -> RadiusServer:
    """The tenant's ports and secret in this cell."""
    slot = cells.require_slot(session, tenant_id=tenant_id)
    secret = cell.signing.sealer.open(slot.secret_sealed, cells.slot_secret_context(slot)).decode()
    return RadiusServer(LOOPBACK, slot.auth_port, slot.acct_port, secret)


def running_tenant(
    cell: RunningCell, engine: Engine, slug: str, *, policy: object = _POLICY, groups: Iterable[str] = ()
) -> RunningTenant:
    """A new tenant of a new MSP in this cell. By default its policy admits any valid certificate."""
    with session_scope(PlatformScope(), engine=engine) as session:
        msp_id = msps.create_msp(session, actor=ACTOR, slug=slug).id
        tenant_id = provision_tenant(session, actor=ACTOR, slug=slug, msp_id=msp_id, signing=cell.signing).id
        named = {"actor": ACTOR, "tenant_id": tenant_id, "slug": "certificates"}
        for name in groups:
            ENDPOINT_GROUPS.create(session, actor=ACTOR, tenant_id=tenant_id, name=name)
        made = policies.create_policy(session, **named)
        policies.save_draft(session, document=policy, **named)
        policies.publish_policy(session, **named)
        site_settings.assign_policy(session, actor=ACTOR, tenant_id=tenant_id, slug="main", policy_id=made.id)
        server = server_of(session, cell, tenant_id)
    tenant = RunningTenant(tenant_id, slug, server, engine)
    tenant.wait_live()
    return tenant
