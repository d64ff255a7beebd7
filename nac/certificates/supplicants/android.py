"""Instructions for Android. Android cannot import a Wi-Fi profile with EAP-TLS from a file, except by device
management."""

from nac.certificates.supplicants.network import SupplicantNetwork

_NOTE = """\
Android imports certificates from files; enter the rest manually (Android 11 or later), or use device management.
1. Settings > Security > Install a certificate > Wi-Fi certificate: {anchors}, then the device's PKCS#12 file.
2. Settings > Wi-Fi > {ssid}:
     EAP method          TLS
     CA certificate      from step 1
     Online certificate status   Do not validate (the server checks; the phone has no network yet)
     Domain              {server_names}
     User certificate    the device's, from step 1
     Identity            {identity}
"""
_WIRED = "Android has no user settings for wired networks with 802.1X; device management can configure them.\n"


def render_instructions(network: SupplicantNetwork, *, identity: str, anchors: str) -> str:
    if not network.ssid:
        return _WIRED
    return _NOTE.format(
        ssid=network.ssid, server_names=";".join(network.server_names), identity=identity, anchors=anchors
    )
