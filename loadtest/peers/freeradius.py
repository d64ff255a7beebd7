"""FreeRADIUS of the distribution with a private configuration folder and free ports."""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from loadtest import processes
from loadtest.processes import LOOPBACK, BenchError
from loadtest.radius_client import RadiusClient, Target, UnexpectedReply
from loadtest.workloads import StatusServer

RADDB = Path("/etc/freeradius/3.0")
HERE = Path(__file__).parent

# Sites and modules of the distribution, except eap, which the benchmark configures, and the inner tunnel of PEAP and
# TTLS.
_STOCK_MODULES = (
    *(
        "always",
        "attr_filter",
        "chap",
        "detail",
        "detail.log",
        "digest",
        "dynamic_clients",
        "echo",
        "exec",
        "expiration",
    ),
    *(
        "expr",
        "files",
        "linelog",
        "logintime",
        "mschap",
        "ntlm_auth",
        "pap",
        "passwd",
        "preprocess",
        "radutmp",
        "realm",
    ),
    *("replicate", "soh", "sradutmp", "unix", "unpack", "utf8"),
)


class FreeRadius:
    """Runs the configuration `stock` or `rlm_sql` during a `with`."""

    def __init__(
        self, folder: Path, overlay: str, *, authorize: Iterable[str] = (), values: Mapping[str, str] | None = None
    ) -> None:
        """Create the server. `folder` must be private to this account.

        `authorize` contains lines for the `files` module. `values` has the values of the placeholders @name@ in the
        configuration files.
        """
        self._folder = folder
        # The configuration rlm_sql is `stock` with the sql module.
        self._overlays = dict.fromkeys(("stock", overlay))
        self._authorize = authorize
        self._values = dict(values or {})
        self._owner = processes.find_account("freerad")
        self.name = overlay

    def __enter__(self) -> Self:
        auth_port, acct_port = processes.free_ports(2)
        secret = os.urandom(12).hex()
        self.target = Target(LOOPBACK, auth_port, acct_port, secret.encode())
        raddb, run = self._folder / "raddb", self._folder / "run"
        # Create this folder first. Otherwise threads of rlm_detail try to create it at the same time, and lose
        # records.
        (run / "radacct" / LOOPBACK).mkdir(parents=True)
        self._values |= {"raddb": str(raddb), "run": str(run), "secret": secret}
        self._render(raddb)
        processes.chown_tree(self._folder, self._owner)
        log = run / "radius.log"
        command: list[str | Path] = ["freeradius", "-f", "-l", log, "-d", raddb]
        try:
            self._process = processes.start_process(command, owner=self._owner, output=run / "output")
        except FileNotFoundError as error:
            raise BenchError("FreeRADIUS is not installed. Install it: ./admit bench") from error
        try:
            processes.wait_until(self._answers, f"peer {self.name}", seconds=30, process=self._process, log=log)
        except BenchError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        processes.end_process(self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _answers(self) -> bool:
        with RadiusClient(timeout_seconds=0.1, tries=1) as client:
            try:
                client.ask(StatusServer(self.target))
            except UnexpectedReply:
                return False
        return True

    def _render(self, raddb: Path) -> None:
        if not os.access(RADDB / "radiusd.conf", os.R_OK):
            raise BenchError(f"{RADDB} cannot be read: run the benchmark as root or as a member of the group freerad")
        for name in ("mods-enabled", "mods-config", "sites-enabled"):
            (raddb / name).mkdir(parents=True)
        for name in ("policy.d", "proxy.conf", "dictionary", "templates.conf"):
            (raddb / name).symlink_to(RADDB / name)
        (raddb / "sites-enabled/default").write_text(self._site((RADDB / "sites-available/default").read_text()))
        for source in (RADDB / "mods-config").iterdir():
            if source.name != "files":
                (raddb / "mods-config" / source.name).symlink_to(source)
        self._fill(HERE / "shared/radiusd.conf", raddb / "radiusd.conf")
        for name in _STOCK_MODULES:
            (raddb / "mods-enabled" / name).symlink_to(RADDB / "mods-available" / name)
        for overlay in self._overlays:
            for source in (HERE / overlay / "mods").iterdir():
                self._fill(source, raddb / "mods-enabled" / source.name)
        self._render_files(raddb / "mods-config/files")

    def _site(self, text: str) -> str:
        """Return the distribution's virtual server (site) with the ports of this server.

        With the options -i and -p, radiusd 3.2.7 does not respond to accounting, because the listener has no virtual
        server.
        """
        text = re.sub(r"^listen \{\n.*?^\}\n", "", text, flags=re.MULTILINE | re.DOTALL)
        head, authorize, rest = text.partition("\nauthorize {\n")
        if not authorize:
            raise BenchError(f"{RADDB}/sites-available/default is not in the distribution's form: restore it")
        ports = (("auth", self.target.auth_port), ("acct", self.target.acct_port))
        listen = "\nlisten {{\n\ttype = {}\n\tipaddr = {}\n\tport = {}\n}}\n"
        return head + "".join(listen.format(kind, LOOPBACK, port) for kind, port in ports) + authorize + rest

    def _render_files(self, folder: Path) -> None:
        folder.mkdir()
        for name in ("accounting", "pre-proxy"):
            (folder / name).symlink_to(RADDB / "mods-config/files" / name)
        with (folder / "authorize").open("w") as sink:
            sink.writelines(self._authorize)

    def _fill(self, source: Path, destination: Path) -> None:
        text = source.read_text()
        for name, value in self._values.items():
            text = text.replace(f"@{name}@", value)
        destination.write_text(text)


def authorize_lines(known: Iterable[tuple[str, str]], clients: Iterable[tuple[str, str]]) -> Iterable[str]:
    """Return lines for FreeRADIUS' `files` module: MAC addresses and EAP-TLS identities with VLANs (RFC 3580 3.31)."""
    reply = '\tTunnel-Type = VLAN, Tunnel-Medium-Type = IEEE-802, Tunnel-Private-Group-Id = "{}"\n'
    for mac, vlan in known:
        yield f'{mac} Cleartext-Password := "{mac}"\n' + reply.format(vlan)
    for identity, vlan in clients:
        yield f"{identity}\n" + reply.format(vlan)


def version() -> str:
    """Return the version of the installed FreeRADIUS, such as "3.2.7"."""
    try:
        output = subprocess.run(["freeradius", "-v"], capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise BenchError("FreeRADIUS is not installed. Install it: ./admit bench") from error
    return output.partition("Version ")[2].split()[0].rstrip(",")
