"""A private slapd with its own folder, free ports, and LDAPS and StartTLS with its own CA."""

import ipaddress
import os
import shutil
import socket
import subprocess
import tempfile
import time
from base64 import b64encode
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from nac.kit.clock import utc_now
from tests.certificates.uploads import authority, pem
from tests.polling import PATIENCE_SECONDS
from tests.ports import free_row

HOST = "127.0.0.1"
BASE = "dc=corp,dc=example"
SERVICE_DN, SERVICE_PASSWORD = f"cn=admit,{BASE}", "service-account-password"

_CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
pidfile {folder}/slapd.pid
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
TLSCACertificateFile {folder}/ca.pem
sizelimit 500
database mdb
maxsize 16777216
suffix "{base}"
rootdn "cn=root,{base}"
rootpw root-password
directory {folder}/data
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{service}" read by self read by * none
"""


class Slapd:
    """A slapd that runs within a `with` block, or between `start` and `stop`."""

    def __init__(self, *, base: str = BASE) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="admit-ldap-"))
        (self.folder / "data").mkdir()
        self.base = base
        self.ca_certificate = make_certificates(self.folder)
        self.ldap_port = free_row(udp=0, tcp=2)
        self.ldaps_port = self.ldap_port + 1
        configuration = _CONFIGURATION.format(folder=self.folder, base=base, service=f"cn=admit,{base}")
        (self.folder / "slapd.conf").write_text(configuration)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    @property
    def ldaps(self) -> str:
        return f"ldaps://{HOST}:{self.ldaps_port}"

    @property
    def ldap(self) -> str:
        return f"ldap://{HOST}:{self.ldap_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                ["/usr/sbin/slapd", "-d", "0", "-f", self.folder / "slapd.conf", "-h", f"{self.ldap} {self.ldaps}"],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection((HOST, self.ldaps_port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, "slapd does not answer"
                time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def load(self, ldif: str) -> None:
        self._tool("ldapadd", ldif)

    def modify(self, ldif: str) -> None:
        self._tool("ldapmodify", ldif)

    def _tool(self, tool: str, ldif: str) -> None:
        done = subprocess.run(
            [tool, "-x", "-H", self.ldap, "-D", f"cn=root,{self.base}", "-w", "root-password"],
            input=ldif,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def tree(base: str = BASE) -> str:
    """The initial entries of every test."""
    return f"""
dn: {base}
objectClass: domain
dc: {base.partition(",")[0].removeprefix("dc=")}

dn: cn=admit,{base}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: admit
userPassword: {SERVICE_PASSWORD}

dn: ou=people,{base}
objectClass: organizationalUnit
ou: people

dn: ou=groups,{base}
objectClass: organizationalUnit
ou: groups
"""


def person(uid: str, password: str, *, base: str = BASE, **attributes: str) -> str:
    names = {"uid": uid, "cn": uid, "sn": uid, "userPassword": password, **attributes}
    return _entry(dn_of(uid, base=base), "inetOrgPerson", *names.items())


def group(name: str, *members: str, base: str = BASE) -> str:
    """A group. `members` are DNs."""
    lines = [("member", member) for member in members]
    return _entry(f"cn={_escaped(name)},ou=groups,{base}", "groupOfNames", ("cn", name), *lines)


def dn_of(uid: str, *, base: str = BASE) -> str:
    return f"uid={_escaped(uid)},ou=people,{base}"


def _escaped(value: str) -> str:
    """Escape a value for a DN (RFC 4514 2.4): all characters except letters and digits as octets."""
    return "".join(chr(octet) if chr(octet).isalnum() and octet < 128 else f"\\{octet:02x}" for octet in value.encode())


def _entry(dn: str, kind: str, *attributes: tuple[str, str]) -> str:
    lines = [("dn", dn), ("objectClass", kind), *attributes]
    return "\n" + "".join(f"{name}:: {b64encode(value.encode()).decode()}\n" for name, value in lines)


def make_certificates(folder: Path) -> str:
    """Write ca.pem, server.pem and server.key. Returns the CA in PEM."""
    now = utc_now()
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))])
    directory_ca = authority("Directory CA", now)
    server = authority("localhost", now, by=directory_ca, ca=False, sign=False, extensions=((names, False),))
    (folder / "ca.pem").write_bytes(pem(directory_ca))
    (folder / "server.pem").write_bytes(pem(server))
    with open(os.open(folder / "server.key", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(server.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return pem(directory_ca).decode()
