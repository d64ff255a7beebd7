"""Configuration profiles (.mobileconfig) for iOS, iPadOS and macOS (Apple, Profile-Specific Payload Keys)."""

import plistlib
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from nac.certificates.supplicants.network import SupplicantNetwork
from pki.names import read_common_name

_EAP_TLS = 13
_PREFIX = "admit"


def build_mobileconfig(
    network: SupplicantNetwork,
    *,
    identity: bytes | None = None,
    password: str = "",
    name: str = "",
    connect: bool = True,
) -> bytes:
    """Return a configuration profile with the network settings and the trusted roots.

    `identity` is a PKCS#12 file with a device certificate and its key, encrypted with `password`. The device displays
    the certificate as `name`. Protect such a profile like a private key. Without `identity`, the device management
    system must add the certificate. Without `connect`, the profile contains no network settings.
    """
    roots = [_root_payload(network, number) for number in range(len(network.anchors))]
    payloads = list(roots)
    link: dict[str, Any] = {}
    if identity is not None:
        held = _build_payload(network, "com.apple.security.pkcs12", f"identity {name}", name or "Identity")
        held |= {"PayloadContent": identity, "Password": password, "PayloadCertificateFileName": "identity.p12"}
        payloads.append(held)
        link["PayloadCertificateUUID"] = held["PayloadUUID"]
    link["EAPClientConfiguration"] = {
        "AcceptEAPTypes": [_EAP_TLS],
        "PayloadCertificateAnchorUUID": [root["PayloadUUID"] for root in roots],
        "TLSTrustedServerNames": list(network.server_names),
        "TLSMinimumVersion": "1.2",
        "TLSMaximumVersion": "1.3",
    }
    if connect:
        payloads.append((_wifi_payload(network) if network.ssid else _wired_payload(network)) | link)
    profile = _build_payload(network, "Configuration", "profile", network.title) | {
        "PayloadOrganization": network.organisation,
        "PayloadDescription": f"Connects to {network.title} with a certificate.",
        "PayloadContent": payloads,
    }
    return plistlib.dumps(profile, sort_keys=False)


def _build_payload(network: SupplicantNetwork, kind: str, part: str, title: str) -> dict[str, Any]:
    identifier = str(network.stable_uuid(part)).upper()
    return {
        "PayloadType": kind,
        "PayloadVersion": 1,
        "PayloadIdentifier": f"{_PREFIX}.{identifier.lower()}",
        "PayloadUUID": identifier,
        "PayloadDisplayName": title,
    }


def _root_payload(network: SupplicantNetwork, number: int) -> dict[str, Any]:
    certificate = network.anchors[number]
    der = certificate.public_bytes(Encoding.DER)
    title = read_common_name(certificate.subject) or certificate.subject.rfc4514_string()
    # The payload's UUID depends on the serial number, so that it does not change if a tenant adds another root.
    payload = _build_payload(network, "com.apple.security.root", f"root {certificate.serial_number:x}", title)
    return payload | {"PayloadContent": der, "PayloadCertificateFileName": f"root-{number + 1}.cer"}


def _wifi_payload(network: SupplicantNetwork) -> dict[str, Any]:
    return _build_payload(network, "com.apple.wifi.managed", "wifi", network.ssid) | {
        "SSID_STR": network.ssid,
        "HIDDEN_NETWORK": False,
        "AutoJoin": True,
        # With "WPA2", devices also use WPA3 if the network offers it.
        "EncryptionType": "WPA2",
    }


def _wired_payload(network: SupplicantNetwork) -> dict[str, Any]:
    # Only macOS supports wired networks.
    return _build_payload(network, "com.apple.firstactiveethernet.managed", "wired", network.title) | {
        "Interface": "FirstActiveEthernet"
    }
