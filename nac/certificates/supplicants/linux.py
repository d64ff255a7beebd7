"""Configurations for wpa_supplicant.conf(5) and NetworkManager (nm-settings-keyfile(5))."""

import re

from nac.certificates.supplicants.network import IdentityFiles, SupplicantNetwork

# Text that Admit can write in quotes for wpa_supplicant. Quoted text has no escapes, so Admit writes other text as
# hexadecimal digits.
_QUOTABLE = re.compile(r"[A-Za-z0-9 !#$%&'()*+,./:;<=>?@\[\]^_`{|}~-]*")
_PLAIN_SSID = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]*(?<! )")


def render_wpa_supplicant(network: SupplicantNetwork, *, identity: str, files: IdentityFiles) -> str:
    """Return a network block for wpa_supplicant.conf, without global settings such as the control interface.

    For a wired network, start `wpa_supplicant -Dwired` and set ap_scan=0.
    """
    lines = ["network={"] if network.ssid else ["ap_scan=0", "", "network={"]
    if network.ssid:
        fields = {"ssid": _quote(network.ssid), "key_mgmt": "WPA-EAP WPA-EAP-SHA256", "ieee80211w": "1"}
    else:
        fields = {"key_mgmt": "IEEE8021X", "eapol_flags": "0"}
    fields |= {
        "eap": "TLS",
        "identity": _quote(identity),
        "ca_cert": _quote(files.anchors),
        "client_cert": _quote(files.certificate),
        "private_key": _quote(files.key),
        "domain_match": _quote(";".join(network.server_names)),
    }
    lines += [f"\t{name}={value}" for name, value in fields.items()]
    return "\n".join([*lines, "}", ""])


def _quote(value: str) -> str:
    return f'"{value}"' if _QUOTABLE.fullmatch(value) else value.encode().hex()


def render_network_manager(network: SupplicantNetwork, *, identity: str, files: IdentityFiles) -> str:
    """Return a keyfile for /etc/NetworkManager/system-connections, readable only by root."""
    kind = "wifi" if network.ssid else "ethernet"
    sections = {
        "connection": {"id": _escape(network.title), "uuid": str(network.stable_uuid("connection")), "type": kind}
    }
    if network.ssid:
        sections["wifi"] = {"mode": "infrastructure", "ssid": _format_ssid(network.ssid)}
        sections["wifi-security"] = {"key-mgmt": "wpa-eap"}
    sections["802-1x"] = {
        "eap": "tls;",
        "identity": _escape(identity),
        "ca-cert": files.anchors,
        "client-cert": files.certificate,
        "private-key": files.key,
        # The private key is not encrypted, so NetworkManager must not prompt for a password (flag 4: not required).
        "private-key-password-flags": "4",
        "domain-match": ";".join(network.server_names),
    }
    return "\n".join(
        line
        for name, fields in sections.items()
        for line in (f"[{name}]", *(f"{key}={value}" for key, value in fields.items()), "")
    )


def _escape(value: str) -> str:
    # In GLib key files, a backslash begins an escape, and leading spaces are ignored.
    escaped = value.replace("\\", "\\\\")
    return f"\\s{escaped[1:]}" if escaped.startswith(" ") else escaped


def _format_ssid(ssid: str) -> str:
    return ssid if _PLAIN_SSID.fullmatch(ssid) else "".join(f"{octet};" for octet in ssid.encode())
