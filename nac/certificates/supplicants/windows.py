"""WLANProfile and LANProfile of Windows (Microsoft, WLAN_profile and LAN_profile schemas; EapHostConfig for EAP-TLS).

Administrators import the profiles with netsh or a device management system.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from cryptography.hazmat.primitives import hashes

from nac.certificates.supplicants.network import SupplicantNetwork

_WLAN = """\
<?xml version="1.0"?>
<WLANProfile xmlns="http://www.microsoft.com/networking/WLAN/profile/v1">
  <name>{title}</name>
  <SSIDConfig>
    <SSID>
      <hex>{ssid_hex}</hex>
      <name>{title}</name>
    </SSID>
    <nonBroadcast>false</nonBroadcast>
  </SSIDConfig>
  <connectionType>ESS</connectionType>
  <connectionMode>auto</connectionMode>
  <MSM>
    <security>
      <authEncryption>
        <authentication>WPA2</authentication>
        <encryption>AES</encryption>
        <useOneX>true</useOneX>
      </authEncryption>
{onex}
    </security>
  </MSM>
</WLANProfile>
"""
_LAN = """\
<?xml version="1.0"?>
<LANProfile xmlns="http://www.microsoft.com/networking/LAN/profile/v1">
  <MSM>
    <security>
      <OneXEnforced>false</OneXEnforced>
      <OneXEnabled>true</OneXEnabled>
{onex}
    </security>
  </MSM>
</LANProfile>
"""
_ONEX = """\
      <OneX xmlns="http://www.microsoft.com/networking/OneX/v1">
        <cacheUserData>true</cacheUserData>
        <authMode>machineOrUser</authMode>
        <EAPConfig>
          <EapHostConfig xmlns="http://www.microsoft.com/provisioning/EapHostConfig">
            <EapMethod>
              <Type xmlns="http://www.microsoft.com/provisioning/EapCommon">13</Type>
              <VendorId xmlns="http://www.microsoft.com/provisioning/EapCommon">0</VendorId>
              <VendorType xmlns="http://www.microsoft.com/provisioning/EapCommon">0</VendorType>
              <AuthorId xmlns="http://www.microsoft.com/provisioning/EapCommon">0</AuthorId>
            </EapMethod>
            <Config xmlns="http://www.microsoft.com/provisioning/EapHostConfig">
              <Eap xmlns="http://www.microsoft.com/provisioning/BaseEapConnectionPropertiesV1">
                <Type>13</Type>
                <EapType xmlns="http://www.microsoft.com/provisioning/EapTlsConnectionPropertiesV1">
                  <CredentialsSource>
                    <CertificateStore>
                      <SimpleCertSelection>true</SimpleCertSelection>
                    </CertificateStore>
                  </CredentialsSource>
                  <ServerValidation>
                    <DisableUserPromptForServerValidation>true</DisableUserPromptForServerValidation>
                    <ServerNames>{server_names}</ServerNames>
{trusted}
                  </ServerValidation>
                  <DifferentUsername>false</DifferentUsername>
                  <PerformServerValidation xmlns="http://www.microsoft.com/provisioning/EapTlsConnectionPropertiesV2">true</PerformServerValidation>
                  <AcceptServerName xmlns="http://www.microsoft.com/provisioning/EapTlsConnectionPropertiesV2">true</AcceptServerName>
                </EapType>
              </Eap>
            </Config>
          </EapHostConfig>
        </EAPConfig>
      </OneX>"""
_TRUSTED = "                    <TrustedRootCA>{}</TrustedRootCA>"
_ADMINISTRATOR_NOTE = "Run as administrator in the folder of these files:"
_ADD_ROOT = "  certutil -addstore Root {}"
_ADD_WLAN = "  netsh wlan add profile filename={} user=all"
_ADD_LAN = """\
  sc config dot3svc start=auto
  net start dot3svc
  netsh lan add profile filename={} interface="Ethernet"
The last word is the name of the network adapter."""


def build_profile_xml(network: SupplicantNetwork) -> str:
    """Return a LANProfile for a wired network, otherwise a WLANProfile.

    Windows selects the certificate of the device from the certificate store.
    """
    onex = _ONEX.format(
        server_names=escape(";".join(network.server_names)),
        trusted="\n".join(_TRUSTED.format(_thumbprint(anchor.fingerprint(_SHA1))) for anchor in network.anchors),
    )
    if not network.ssid:
        return _LAN.format(onex=onex)
    return _WLAN.format(title=escape(network.ssid), ssid_hex=network.ssid.encode().hex().upper(), onex=onex)


def render_instructions(network: SupplicantNetwork, *, profile: str, roots: Sequence[str]) -> str:
    """Return instructions to import the profile and the roots. `profile` and `roots` are file names."""
    add_profile = (_ADD_WLAN if network.ssid else _ADD_LAN).format(profile)
    return "\n".join([_ADMINISTRATOR_NOTE, *map(_ADD_ROOT.format, roots), add_profile, ""])


# Windows identifies trusted roots by their SHA-1 fingerprint. This does not weaken the check of the certificates.
_SHA1 = hashes.SHA1()  # noqa: S303


def _thumbprint(digest: bytes) -> str:
    return digest.hex(" ")
