"""Starts the peers of a benchmark (other RADIUS servers), and ends them together."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from loadtest import processes
from loadtest.certificates import BenchAuthority, ClientFiles
from loadtest.peers.freeradius import FreeRadius, authorize_lines
from loadtest.peers.postgres import Postgres
from loadtest.processes import ProcessTree
from loadtest.systems import ExpectedSupplicant, SystemUnderTest, make_supplicants
from loadtest.workloads import BenchDevice

STOCK, STOCK_RESUMING, RLM_SQL = "stock", "stock, cache on", "rlm_sql"
# Peers for each workload. For full handshakes, stock FreeRADIUS without a session cache does less, so it is the faster
# peer.
PEERS_OF = {
    "mab": (STOCK, RLM_SQL),
    "mab-paced": (STOCK,),
    "acct": (RLM_SQL,),
    "tls-full": (STOCK,),
    "tls-mix": (STOCK_RESUMING,),
}
_CLIENTS = 32
_CLIENT_VLAN = "30"


@contextmanager
def running_peers(names: Sequence[str], known: Sequence[tuple[str, str]]) -> Iterator[dict[str, SystemUnderTest]]:
    """Run the named peers. Each peer accepts the MAC addresses in `known`, with their VLANs."""
    with ExitStack() as stack:
        # Session files are on a tmpfs for all systems.
        shared_memory = Path("/dev/shm")  # noqa: S108 -- mkdtemp creates a unique name
        memory = shared_memory if shared_memory.is_dir() else None
        folder = _folder(stack, None)
        sessions = _folder(stack, memory)
        processes.chown_tree(sessions, processes.find_account("freerad"))
        certificates = folder / "certificates"
        certificates.mkdir()
        authority = BenchAuthority(certificates)
        clients = [authority.client(f"bench-device-{number:02d}") for number in range(_CLIENTS)]
        processes.chown_tree(certificates, processes.find_account("freerad"))
        values = {"certificates": str(certificates), "sessions": str(sessions)}
        systems: dict[str, SystemUnderTest] = {}
        for name in names:
            home = folder / name.split(",")[0].replace("stock", f"stock{len(systems)}")
            if name == RLM_SQL:
                systems[name] = _rlm_sql(stack, home, values, known)
            else:
                resumption = "yes" if name == STOCK_RESUMING else "no"
                peer = _stock(stack, home, values | {"resumption": resumption}, known, clients)
                supplicants = make_supplicants(peer.target, clients, authority.server_certificate, _CLIENT_VLAN)
                systems[name] = _system(name, peer, known, supplicants)
        yield systems


def _folder(stack: ExitStack, parent: Path | None) -> Path:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-", dir=parent)))
    # The servers run under separate accounts, which must be able to enter the folder.
    folder.chmod(0o755)
    return folder


def _stock(
    stack: ExitStack,
    home: Path,
    values: dict[str, str],
    known: Sequence[tuple[str, str]],
    clients: Sequence[ClientFiles],
) -> FreeRadius:
    lines = authorize_lines(known, ((client.identity, _CLIENT_VLAN) for client in clients))
    return stack.enter_context(FreeRadius(home, "stock", authorize=lines, values=values))


def _rlm_sql(stack: ExitStack, home: Path, values: dict[str, str], known: Sequence[tuple[str, str]]) -> SystemUnderTest:
    postgres = stack.enter_context(Postgres(home.with_name("postgres")))
    postgres.load(known)
    values = values | {"resumption": "no", "database_socket": str(postgres.socket)}
    peer = stack.enter_context(FreeRadius(home, "rlm_sql", values=values))
    return _system(RLM_SQL, peer, known, (), postgres=postgres.pid)


def _system(
    name: str,
    peer: FreeRadius,
    known: Sequence[tuple[str, str]],
    supplicants: Sequence[ExpectedSupplicant],
    **others: int,
) -> SystemUnderTest:
    devices = [BenchDevice(peer.target, mac, vlan) for mac, vlan in known]
    trees = {"radiusd": ProcessTree(peer.pid)} | {role: ProcessTree(pid) for role, pid in others.items()}
    return SystemUnderTest(name, devices, supplicants, lambda: trees)
