"""A tenant's network settings for devices. The checks accept only settings that every export format can represent."""

import re
from dataclasses import dataclass
from uuid import UUID, uuid5

from cryptography import x509

from nac.kit.advice import Advice
from nac.kit.errors import InvalidInput

# Maximum length of an SSID (IEEE 802.11-2020 9.4.2.2).
_SSID_OCTETS = 32
_PATH = re.compile(r"/[A-Za-z0-9/._+@~=,-]+")


class InvalidNetwork(InvalidInput):
    """The network settings are invalid."""


@dataclass(frozen=True, slots=True)
class SupplicantNetwork:
    """A network with EAP-TLS. Devices accept a RADIUS server if its certificate has a name in `server_names` and chains
    up to one of the roots `anchors`.

    Create this object with `describe_network`.
    """

    tenant_id: UUID
    organisation: str
    # "" for a wired network.
    ssid: str
    # Trusted roots: during a rollover the old root and the new root.
    anchors: tuple[x509.Certificate, ...]
    # DNS names. Devices accept a RADIUS server if its certificate has one of these names.
    server_names: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.ssid or f"{self.organisation} (wired)"

    def stable_uuid(self, part: str) -> UUID:
        """Return the UUID for a part of an exported configuration file.

        The UUID does not change between exports, so that a new file replaces the settings from an older file.
        """
        return uuid5(self.tenant_id, f"{self.ssid}\0{part}")


def require_network(network: SupplicantNetwork) -> SupplicantNetwork:
    require_ssid(network.ssid)
    if not network.anchors or not network.server_names:
        raise InvalidNetwork(
            "The tenant has no root or no server certificate with a DNS name.",
            place="server",
            remedy=Advice(
                "Create a root authority, and issue a server certificate with a DNS name.",
                "listAuthorities",
                "listCertificates",
            ),
        )
    return network


def require_ssid(ssid: str) -> str:
    """Check an SSID; "" means a wired network."""
    if len(ssid.encode()) > _SSID_OCTETS or not ssid.isprintable():
        raise InvalidNetwork(
            f"Invalid SSID {ssid!r}.", place="ssid", remedy="Use an SSID of up to 32 octets of printable text."
        )
    return ssid


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """Absolute paths of files on a Linux device: trusted roots, the device's certificate and its private key."""

    anchors: str
    certificate: str
    key: str


def require_files(files: IdentityFiles) -> IdentityFiles:
    """Check that the paths need no quoting in any configuration file."""
    for path in (files.anchors, files.certificate, files.key):
        if not _PATH.fullmatch(path):
            raise InvalidNetwork(
                f"Invalid path {path!r}.",
                place="path",
                remedy="Use an absolute path of letters, digits and /._+@~=,-",
            )
    return files


def require_identity(identity: str) -> str:
    """Check the identity that the device sends in its first EAP packet (RFC 3748 5.1).

    Admit decides by the certificate and not by this identity.
    """
    if not identity or len(identity.encode()) > 253 or not identity.isprintable() or identity != identity.strip():
        raise InvalidNetwork(
            f"Invalid identity {identity!r}.",
            place="identity",
            remedy="Use an identity of 1 to 253 octets of printable text.",
        )
    return identity
