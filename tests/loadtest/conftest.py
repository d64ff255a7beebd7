"""The distribution's FreeRADIUS, started once for all tests of load generators, and an installation for tenants."""

import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadtest import processes
from loadtest.certificates import BenchAuthority, ClientFiles
from loadtest.eap_tls_client import Supplicant, client_context
from loadtest.installation import Installation
from loadtest.peers.freeradius import FreeRadius, authorize_lines
from loadtest.radius_client import RadiusClient, Target
from loadtest.workloads import BENCH_NAS, BenchDevice
from nac.engine.dictionary import read_dictionary, to_json
from nac.kit.db import CellScope, make_engine, session_scope
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from nac.tenancy.cells import service as cells

_DICTIONARY = Path("/usr/share/freeradius/dictionary")
KNOWN = [(f"02000000{number:04x}", str(10 + number)) for number in range(50)]


@dataclass(frozen=True)
class Stock:
    target: Target
    authority: BenchAuthority
    client: ClientFiles
    # The VLAN of the client.
    vlan: str
    run: Path

    @property
    def devices(self) -> list[BenchDevice]:
        return [BenchDevice(self.target, mac, vlan) for mac, vlan in KNOWN]

    def supplicant(
        self, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, server_certificate: bytes = b""
    ) -> Supplicant:
        context = client_context(
            certificate=str(self.client.certificate),
            key=str(self.client.key),
            trusted=self.authority.root_pem,
            version=version,
        )
        return Supplicant(context, self.client.identity, BENCH_NAS.attributes(), server_certificate=server_certificate)


@pytest.fixture
def installation(database, tmp_path):
    key = tmp_path / "master.key"
    key.touch(mode=0o600)
    key.write_text(os.urandom(32).hex())
    settings = load_settings(
        {
            "ADMIT_VAR_DIR": str(tmp_path),
            "ADMIT_DATABASE_URL": database.app_url,
            "ADMIT_DATABASE_OWNER_URL": database.owner_url,
            "ADMIT_DATABASE_CELL_URL": database.cell_url,
            "ADMIT_MASTER_KEY_FILE": str(key),
        }
    )
    sealer, engine = Sealer(MasterKeyFile(key)), make_engine(database.cell_url)
    with session_scope(CellScope(cells.UNREGISTERED_CELL), engine=engine) as session:
        cell_id = cells.register_cell(session, name=settings.cell_name, host="127.0.0.1")
    with session_scope(CellScope(cell_id), engine=engine) as session:
        cells.ensure_slots(session, cell_id=cell_id, count=4, first_port=18120, seal=sealer.seal)
        content = to_json(read_dictionary(_DICTIONARY))
        cells.upload_dictionary(session, cell_id=cell_id, content=content, server_version="3.2.7")
    engine.dispose()
    with Installation(settings) as installation:
        yield installation


@pytest.fixture(scope="session")
def stock() -> Iterator[Stock]:
    # Outside pytest's own folder, which the account of radiusd may not enter.
    with tempfile.TemporaryDirectory(prefix="admit-stock-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield from _running(folder)


def _running(folder: Path) -> Iterator[Stock]:
    certificates, sessions, home = (folder / name for name in ("certificates", "sessions", "home"))
    for made in (certificates, sessions):
        made.mkdir()
    authority = BenchAuthority(certificates)
    client = authority.client("laptop-1")
    for read in (certificates, sessions):
        processes.chown_tree(read, processes.find_account("freerad"))
    values = {"certificates": str(certificates), "sessions": str(sessions), "resumption": "yes"}
    lines = authorize_lines(KNOWN, [(client.identity, "77")])
    with FreeRadius(home, "stock", authorize=lines, values=values) as peer:
        yield Stock(peer.target, authority, client, "77", home / "run")


@pytest.fixture
def client() -> Iterator[RadiusClient]:
    with RadiusClient(timeout_seconds=3, tries=1) as client:
        yield client
