"""What every supplicant must know of a tenant's network, and checks that any form of it can carry it."""

import re
from dataclasses import dataclass
from uuid import UUID, uuid5

from cryptography import x509

from nac.errors import InvalidInput

# IEEE 802.11-2020 9.4.2.2.
_SSID_OCTETS = 32
_PATH = re.compile(r"/[A-Za-z0-9/._+@~=,-]+")


class InvalidNetwork(InvalidInput):
    """A network cannot be described for devices."""


@dataclass(frozen=True, slots=True)
class SupplicantNetwork:
    """EAP-TLS to the servers of `server_names` below one of `anchors`. Make it with `describe_network`."""

    tenant_id: UUID
    organisation: str
    # "" for a wired network.
    ssid: str
    # Roots: during a rollover the old one and the new one.
    anchors: tuple[x509.Certificate, ...]
    # DNS names, of which the server's certificate has one.
    server_names: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.ssid or f"{self.organisation} (wired)"

    def stable_uuid(self, part: str) -> UUID:
        """The same at every export, so that a new file replaces what an older one set up."""
        return uuid5(self.tenant_id, f"{self.ssid}\0{part}")


def require_network(network: SupplicantNetwork) -> SupplicantNetwork:
    require_ssid(network.ssid)
    if not network.anchors or not network.server_names:
        raise InvalidNetwork(
            "The tenant has no root or no server certificate that devices could check.",
            place="server",
            remedy="See ./admit ca list and ./admit cert list.",
        )
    return network


def require_ssid(ssid: str) -> str:
    """ "" stands for no Wi-Fi network."""
    if len(ssid.encode()) > _SSID_OCTETS or not ssid.isprintable():
        raise InvalidNetwork(f"{ssid!r} is no SSID.", place="ssid", remedy="Use up to 32 printable octets.")
    return ssid


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """Where a Linux device keeps its identity: absolute paths."""

    anchors: str
    certificate: str
    key: str


def require_files(files: IdentityFiles) -> IdentityFiles:
    """Paths that need no quoting in any configuration file."""
    for path in (files.anchors, files.certificate, files.key):
        if not _PATH.fullmatch(path):
            raise InvalidNetwork(
                f"{path!r} cannot stand in a configuration file.",
                place="path",
                remedy="Use an absolute path of letters, digits and /._+@~=,-",
            )
    return files


def require_identity(identity: str) -> str:
    """What the device calls itself in the first packet (RFC 3748 5.1); its certificate is what counts."""
    if not identity or len(identity.encode()) > 253 or not identity.isprintable() or identity != identity.strip():
        raise InvalidNetwork(
            f"{identity!r} is no identity.", place="identity", remedy="Use 1 to 253 octets of printable text."
        )
    return identity
