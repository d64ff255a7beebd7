"""What a person enters on Android, which takes no Wi-Fi profile with EAP-TLS from a file: device management can."""

from nac.supplicants.network import SupplicantNetwork

_NOTE = """\
Android takes certificates from files, and the rest by hand (Android 11 or later), or all of it from device management.
1. Settings > Security > Install a certificate > Wi-Fi certificate: {anchors}, and then the PKCS#12 file of the device.
2. Settings > Wi-Fi > {ssid}:
     EAP method          TLS
     CA certificate      the one of step 1
     Online certificate status   Do not validate (the server checks; the phone has no network yet)
     Domain              {server_names}
     User certificate    the device's of step 1
     Identity            {identity}
"""
_WIRED = "Android has no wired network with 802.1X that a person can set up; device management can.\n"


def render_instructions(network: SupplicantNetwork, *, identity: str, anchors: str) -> str:
    if not network.ssid:
        return _WIRED
    return _NOTE.format(
        ssid=network.ssid, server_names=";".join(network.server_names), identity=identity, anchors=anchors
    )
