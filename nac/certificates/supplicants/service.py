"""Export of network settings for a tenant's devices, with the tenant's current roots and server names.

For Android, the export contains instructions, because Android cannot import EAP-TLS settings from a file without device
management.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from cryptography import x509
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates import service as certificates
from nac.certificates.certificate_names import SERVER_PROFILE
from nac.certificates.supplicants import apple, linux, windows
from nac.certificates.supplicants.network import (
    IdentityFiles,
    SupplicantNetwork,
    require_files,
    require_identity,
    require_network,
)
from nac.kit.errors import NotFound
from nac.kit.ids import TenantId
from nac.models import Tenant
from pki.bundles import certificates_pem
from pki.names import read_sans

_NOTE = """\
Android imports only certificates from files. Enter all other settings manually (Android 11 or later), or use device
management.
1. Settings > Security > Install a certificate > Wi-Fi certificate: {anchors}, then the device's PKCS#12 file.
2. Settings > Wi-Fi > {ssid}:
     EAP method          TLS
     CA certificate      from step 1
     Online certificate status   Do not validate (the server checks; the phone has no network yet)
     Domain              {server_names}
     User certificate    the certificate of the device, from step 1
     Identity            {identity}
"""
_WIRED = "Android has no user settings for wired networks with 802.1X. Use device management.\n"


def render_instructions(network: SupplicantNetwork, *, identity: str, anchors: str) -> str:
    if not network.ssid:
        return _WIRED
    return _NOTE.format(
        ssid=network.ssid, server_names=";".join(network.server_names), identity=identity, anchors=anchors
    )


# File names in an export.
_ANCHORS, _CERTIFICATE, _KEY = "ca.pem", "device.pem", "device.key"


def describe_network(
    session: Session, *, tenant_id: TenantId, now: datetime, ssid: str = "", server_names: Sequence[str] = ()
) -> SupplicantNetwork:
    """Return the settings of the tenant's Wi-Fi network or, without an SSID, of its wired network.

    Devices accept the DNS names in the tenant's server certificates, and also `server_names`.
    """
    tenant = session.get(Tenant, tenant_id)
    if tenant is None:
        raise NotFound("The tenant does not exist.", place="tenant")
    own = certificates.list_own_authority_certificates(session, tenant_id=tenant_id)
    names = (*_presented_names(session, tenant_id, now), *(name.lower() for name in server_names))
    return require_network(
        SupplicantNetwork(
            tenant_id=tenant_id,
            organisation=tenant.name,
            ssid=ssid,
            anchors=tuple(item for item in own if item.issuer == item.subject and now <= item.not_valid_after_utc),
            server_names=tuple(dict.fromkeys(names)),
        )
    )


def _presented_names(session: Session, tenant_id: TenantId, now: datetime) -> list[str]:
    """Return the DNS names of all server certificates that the cell presents now or can present later."""
    rows = repository.list_usable_by_profile(session, tenant_id, SERVER_PROFILE, now)
    loaded = [x509.load_der_x509_certificate(row.certificate_der) for row in rows if row.certificate_der is not None]
    return [item.value for certificate in loaded for item in read_sans(certificate) if item.kind == "dns"]


def anchors_pem(network: SupplicantNetwork) -> bytes:
    return certificates_pem(network.anchors)


def _export_apple(network: SupplicantNetwork, identity: str, folder: str) -> dict[str, bytes]:
    return {"admit.mobileconfig": apple.build_mobileconfig(network)}


def _export_windows(network: SupplicantNetwork, identity: str, folder: str) -> dict[str, bytes]:
    roots = {f"root-{number}.cer": certificates_pem([root]) for number, root in enumerate(network.anchors, start=1)}
    notes = windows.render_instructions(network, profile="admit.xml", roots=list(roots))
    return {"admit.xml": windows.build_profile_xml(network).encode(), "README.txt": notes.encode()} | roots


def _export_wpa_supplicant(network: SupplicantNetwork, identity: str, folder: str) -> dict[str, bytes]:
    text = linux.render_wpa_supplicant(network, identity=identity, files=_identity_files(folder))
    return {"wpa_supplicant.conf": text.encode(), _ANCHORS: anchors_pem(network)}


def _export_network_manager(network: SupplicantNetwork, identity: str, folder: str) -> dict[str, bytes]:
    text = linux.render_network_manager(network, identity=identity, files=_identity_files(folder))
    return {"admit.nmconnection": text.encode(), _ANCHORS: anchors_pem(network)}


def _export_android(network: SupplicantNetwork, identity: str, folder: str) -> dict[str, bytes]:
    notes = render_instructions(network, identity=identity, anchors=_ANCHORS)
    return {"README.txt": notes.encode(), _ANCHORS: anchors_pem(network)}


EXPORTERS: Mapping[str, Callable[[SupplicantNetwork, str, str], dict[str, bytes]]] = {
    "apple": _export_apple,
    "windows": _export_windows,
    "wpa_supplicant": _export_wpa_supplicant,
    "networkmanager": _export_network_manager,
    "android": _export_android,
}


def export_files(network: SupplicantNetwork, *, form: str, identity: str, folder: str) -> dict[str, bytes]:
    """Return the configuration files by file name. The files refer to the device's certificate and key in `folder`."""
    return EXPORTERS[form](network, require_identity(identity), folder)


def _identity_files(folder: str) -> IdentityFiles:
    return require_files(IdentityFiles(*(f"{folder.rstrip('/')}/{name}" for name in (_ANCHORS, _CERTIFICATE, _KEY))))
