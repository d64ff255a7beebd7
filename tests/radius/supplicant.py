"""`eapol_test`, an independent supplicant: its configuration files, and the results that it reports."""

import itertools
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.radius.standalone import LOOPBACK
from tests.radius.tenants import PASSWORD, ClientFiles, Tenant

TLS_1_1, TLS_1_2, TLS_1_3 = "1.1", "1.2", "1.3"
_FLAGS = {
    # Debian's OpenSSL offers TLS 1.1 only at security level 0.
    TLS_1_1: "tls_disable_tlsv1_0=1 tls_disable_tlsv1_1=0 tls_disable_tlsv1_2=1 tls_disable_tlsv1_3=1",
    TLS_1_2: "tls_disable_tlsv1_3=1",
    # eapol_test disables TLS 1.3 by default.
    TLS_1_3: "tls_disable_tlsv1_3=0",
}
_numbers = itertools.count(1)


def new_mac() -> str:
    """A Calling-Station-Id that no other conversation uses. It identifies the conversation's records in the journal."""
    return f"02ee00{next(_numbers):06x}"


@dataclass(frozen=True)
class EapolTestRun:
    """One run of eapol_test against a tenant's slot."""

    tenant: Tenant
    # A network block, or a configuration file.
    network: Mapping[str, str] | Path
    mac: str = field(default_factory=new_mac)
    # -N options: "32:s:switch-1".
    attributes: tuple[str, ...] = ()
    reauthentications: int = 0
    timeout_seconds: int = 10
    secret: str = ""
    # Without keys in the Access-Accept (EAP-MD5), eapol_test reports a failure unless this option is set.
    keys: bool = True

    def run(self) -> "EapolTestResult":
        if isinstance(self.network, Path):
            return self._run(str(self.network))
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(network_block(self.network))
            file.flush()
            return self._run(file.name)

    def _run(self, configuration: str) -> "EapolTestResult":
        command = self._command(configuration)
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
        return EapolTestResult(self.mac, done.returncode, done.stdout)

    def _command(self, configuration: str) -> list[str]:
        tenant = self.tenant
        mac = ":".join(self.mac[at : at + 2] for at in range(0, 12, 2))
        return [
            *("eapol_test", "-c", configuration, "-a", LOOPBACK, "-p", str(tenant.auth_port)),
            *("-s", self.secret or tenant.secret, "-M", mac, "-t", str(self.timeout_seconds)),
            *("-r", str(self.reauthentications), *(word for each in self.attributes for word in ("-N", each))),
            *(() if self.keys else ("-n",)),
        ]


@dataclass(frozen=True)
class EapolTestResult:
    """The output of eapol_test."""

    mac: str
    exit_status: int
    output: str

    @property
    def accepted(self) -> bool:
        """Whether eapol_test accepted the Access-Accept, EAP-Success and the keys of every round."""
        return self.exit_status == 0

    @property
    def codes(self) -> list[str]:
        """Access-Accept, Access-Reject and Access-Challenge, in order of arrival."""
        return re.findall(r"code=\d+ \((Access-(?:Accept|Reject|Challenge))\)", self.output)

    @property
    def vlans(self) -> list[str]:
        found = re.findall(r"Attribute 81 \(Tunnel-Private-Group-Id\) length=\d+\n\s+Value: ([0-9a-f]+)", self.output)
        return [bytes.fromhex(value).lstrip(b"\x01").decode() for value in found]

    @property
    def user_names(self) -> list[str]:
        """User names of all packets, including those that eapol_test sent."""
        return re.findall(r"Attribute 1 \(User-Name\) length=\d+\n\s+Value: '([^']*)'", self.output)

    @property
    def accept_user_names(self) -> list[str]:
        """User-Name of each Access-Accept, "" if it is absent."""
        accepts = re.findall(r"code=2 \(Access-Accept\).*?\n((?:   .*\n)*)", self.output)
        found = [re.search(r"Attribute 1 \(User-Name\) length=\d+\n\s+Value: '([^']*)'", each) for each in accepts]
        return [match[1] if match else "" for match in found]

    @property
    def resumptions(self) -> int:
        """The number of resumed rounds.

        With TLS 1.3, eapol_test prints its message again after it reads the tickets.
        """
        rounds = self.output.split("EAPOL: SUPP_PAE entering state AUTHENTICATED")
        return sum("OpenSSL: Handshake finished - resumed=1" in each for each in rounds)

    @property
    def eap_failure(self) -> bool:
        return "EAP: Received EAP-Failure" in self.output


def eap_tls(
    tenant: Tenant,
    client: ClientFiles | None,
    version: str = TLS_1_3,
    *,
    trusts: Path | None = None,
    ciphers: str = "",
    identity: str = "",
    mac: str = "",
    fragment_octets: int = 0,
    **options: object,
) -> EapolTestRun:
    """EAP-TLS with a client certificate, or without if `client` is None.

    The device trusts the tenant's root, or the root of `trusts`. With `fragment_octets` 0, eapol_test chooses the size
    of its fragments.
    """
    network = {
        "key_mgmt": "IEEE8021X",
        "eap": "TLS",
        "identity": _quoted(identity or (client.name if client else "nobody")),
        "ca_cert": _quoted(trusts or tenant.authorities.root_file),
        "phase1": _quoted(_FLAGS[version]),
    }
    if client is not None:
        network |= {"client_cert": _quoted(client.chain_file), "private_key": _quoted(client.key_file)}
    if fragment_octets:
        network["fragment_size"] = str(fragment_octets)
    if version == TLS_1_1:
        ciphers = ciphers or "DEFAULT@SECLEVEL=0"
    if ciphers:
        network["openssl_ciphers"] = _quoted(ciphers)
    return EapolTestRun(tenant, network, mac or new_mac(), **options)


def eap_md5(tenant: Tenant, identity: str, password: str, *, mac: str, **options: object) -> EapolTestRun:
    network = {"key_mgmt": "IEEE8021X", "eap": "MD5", "identity": _quoted(identity), "password": _quoted(password)}
    return EapolTestRun(tenant, network, mac, keys=False, **options)


TTLS_PAP, TTLS_MSCHAPV2, TTLS_EAP = ("TTLS", "auth=PAP"), ("TTLS", "auth=MSCHAPV2"), ("TTLS", "autheap=MSCHAPV2")
PEAP = ("PEAP", "auth=MSCHAPV2")


def eap_password(
    tenant: Tenant,
    way: tuple[str, str],
    identity: str,
    password: str = PASSWORD,
    version: str = TLS_1_3,
    *,
    outer: str = "anonymous@elsewhere.example",
    trusts: Path | None = None,
    fragment_octets: int = 0,
    **options: object,
) -> EapolTestRun:
    """A password in a tunnel. `way` is the EAP type and the inner method."""
    eap, inside = way
    network = {
        "key_mgmt": "IEEE8021X",
        "eap": eap,
        "identity": _quoted(identity),
        "password": _quoted(password),
        "phase1": _quoted(_FLAGS[version]),
        "phase2": _quoted(inside),
        "ca_cert": _quoted(trusts or tenant.authorities.root_file),
    }
    if outer:
        network["anonymous_identity"] = _quoted(outer)
    if fragment_octets:
        network["fragment_size"] = str(fragment_octets)
    if version == TLS_1_1:
        network["openssl_ciphers"] = _quoted("DEFAULT@SECLEVEL=0")
    return EapolTestRun(tenant, network, **options)


def _quoted(value: object) -> str:
    return f'"{value}"'


def network_block(network: Mapping[str, str]) -> str:
    """A network block in the format of eapol_test and wpa_supplicant."""
    return "network={\n" + "".join(f"\t{name}={value}\n" for name, value in network.items()) + "}\n"
