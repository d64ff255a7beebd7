"""Device setup files, read by the parsers of the programs that use them."""

import plistlib
import re
import subprocess
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4
from xml.etree import ElementTree as ET

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from sqlalchemy import Engine

from nac.certificates import service as certificates
from nac.certificates.supplicants import apple, linux, service
from nac.certificates.supplicants.network import IdentityFiles, InvalidNetwork, SupplicantNetwork, require_network
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from pki.issuance import issue_root
from pki.keys import generate_key
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.factories.certificates import Certified

FILES = IdentityFiles("/etc/admit/ca.pem", "/etc/admit/device.pem", "/etc/admit/device.key")
SERVER = "radius.alpha.example"


def root(name: str) -> x509.Certificate:
    key, now = generate_key(), utc_now()
    return issue_root(PROFILES["root"], key=key, subject=subject_name(name), now=now, serial=random_serial())


ROOTS = (root("Alpha Root CA"), root("Alpha Root CA 2"))


def network(ssid: str = "Office", **changes: Any) -> SupplicantNetwork:
    facts: dict[str, Any] = {"tenant_id": UUID(int=7), "organisation": "Alpha & Söhne", "ssid": ssid, "anchors": ROOTS}
    return require_network(SupplicantNetwork(**facts | {"server_names": (SERVER, "radius2.alpha.example")} | changes))


def by_type(profile: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for payload in profile["PayloadContent"]:
        found.setdefault(payload["PayloadType"], []).append(payload)
    return found


@pytest.mark.parametrize(
    ("ssid", "kind"), [("Office", "com.apple.wifi.managed"), ("", "com.apple.firstactiveethernet.managed")]
)
def test_apple_profile_links_network_roots_and_identity(alpha, app_engine, ssid, kind):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        issued = alpha.issue(session)
    bundle = certificates.build_pkcs12_file(issued, password="correct horse")
    profile = plistlib.loads(
        apple.build_mobileconfig(network(ssid), identity=bundle, password="correct horse", name="x")
    )
    assert (profile["PayloadType"], profile["PayloadVersion"]) == ("Configuration", 1)
    payloads = by_type(profile)
    roots = payloads["com.apple.security.root"]
    assert [payload["PayloadContent"] for payload in roots] == [item.public_bytes(Encoding.DER) for item in ROOTS]
    assert [payload["PayloadDisplayName"] for payload in roots] == ["Alpha Root CA", "Alpha Root CA 2"]
    (identity,) = payloads["com.apple.security.pkcs12"]
    held = pkcs12.load_pkcs12(identity["PayloadContent"], identity["Password"].encode())
    assert held.cert.certificate == issued.certificate
    (link,) = payloads[kind]
    assert link["PayloadCertificateUUID"] == identity["PayloadUUID"]
    eap = link["EAPClientConfiguration"]
    assert eap["AcceptEAPTypes"] == [13]
    assert eap["PayloadCertificateAnchorUUID"] == [payload["PayloadUUID"] for payload in roots]
    assert eap["TLSTrustedServerNames"] == [SERVER, "radius2.alpha.example"]
    uuids = [payload["PayloadUUID"] for payload in (profile, *profile["PayloadContent"])]
    assert len(set(uuids)) == len(uuids)
    assert all(UUID(text) for text in uuids)


def test_apple_profile_replaces_its_predecessor_on_rollover():
    old = plistlib.loads(apple.build_mobileconfig(network(anchors=ROOTS[:1])))
    new = plistlib.loads(apple.build_mobileconfig(network()))
    assert old["PayloadIdentifier"] == new["PayloadIdentifier"]
    before, after = ({payload["PayloadUUID"] for payload in each["PayloadContent"]} for each in (old, new))
    assert before < after
    other = plistlib.loads(apple.build_mobileconfig(network(tenant_id=uuid4())))
    assert other["PayloadUUID"] != new["PayloadUUID"]


@pytest.mark.parametrize(("ssid", "kind"), [("Öffice & <Co>", "WLAN"), ("", "LAN")])
def test_windows_profile_is_well_formed_and_checks_the_server(ssid, kind):
    files = service.export_files(network(ssid), form="windows", identity="laptop", folder="/x")
    document = ET.fromstring(files["admit.xml"])  # noqa: S314 -- made here
    schema = f"http://www.microsoft.com/networking/{kind}/profile/v1"
    assert document.tag == f"{{{schema}}}{kind}Profile"
    eap = ("EapHostConfig", "EapCommon", "BaseEapConnectionPropertiesV1")
    eap = (*eap, "EapTlsConnectionPropertiesV1", "EapTlsConnectionPropertiesV2")
    assert {element.tag.partition("}")[0].removeprefix("{") for element in document.iter()} == {
        *(schema, "http://www.microsoft.com/networking/OneX/v1"),
        *(f"http://www.microsoft.com/provisioning/{name}" for name in eap),
    }
    texts = {element.tag.partition("}")[2]: element.text for element in document.iter()}
    assert texts["ServerNames"] == f"{SERVER};radius2.alpha.example"
    thumbprints = [bytes.fromhex(e.text or "") for e in document.iter() if e.tag.endswith("}TrustedRootCA")]
    assert thumbprints == [item.fingerprint(hashes.SHA1()) for item in ROOTS]  # noqa: S303 -- Windows' names
    if ssid:
        assert bytes.fromhex(texts["hex"] or "").decode() == texts["name"] == ssid
    note = files["README.txt"].decode()
    assert re.findall(r"certutil -addstore Root (\S+)", note) == ["root-1.cer", "root-2.cer"]
    assert x509.load_pem_x509_certificate(files["root-2.cer"]) == ROOTS[1]


def offline(keyfile: str, *fields: str) -> dict[str, str]:
    """Parse with NetworkManager's own parser, which rejects unknown input."""
    command = ["nmcli", "--offline", "connection", "modify", "connection.autoconnect-priority", "1"]
    done = subprocess.run(command, input=keyfile, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


@pytest.mark.parametrize("ssid", ["Office", "Öffice; 7", "123;", " lead", ""])
def test_network_manager_reads_its_keyfile(tmp_path, ssid):
    understood = offline(linux.render_network_manager(network(ssid), identity="lap;top\\1", files=FILES))
    assert understood["type"] == ("wifi" if ssid else "ethernet")
    assert understood["eap"] == "tls;"
    assert understood["identity"] == "lap;top\\\\1"
    assert understood["domain-match"] == f"{SERVER};radius2.alpha.example"
    assert [understood[name] for name in ("ca-cert", "client-cert", "private-key")] == [
        FILES.anchors,
        FILES.certificate,
        FILES.key,
    ]
    if ssid:
        assert understood["key-mgmt"] == "wpa-eap"
        assert ssid_of(understood["ssid"]) == ssid


def ssid_of(value: str) -> str:
    if re.fullmatch(r"(\d+;)+", value):
        return bytes(int(octet) for octet in value.split(";")[:-1]).decode()
    # Escaped once for the key file, and once for its lists with semicolons.
    return value.replace("\\s", " ").replace("\\\\", "\\").replace("\\;", ";")


def test_network_manager_rejects_invalid_files():
    """Without this test, the test above would prove nothing."""
    keyfile = linux.render_network_manager(network(), identity="laptop", files=FILES).replace("eap=tls;", "eap=smoke;")
    with pytest.raises(AssertionError, match="eap"):
        offline(keyfile)


@pytest.mark.parametrize(("ssid", "before"), [("Office", []), ("", ["ap_scan=0", ""])])
def test_wpa_supplicant_file_has_only_the_network(ssid, before):
    """Other settings, such as the control interface, remain those of the system."""
    lines = linux.render_wpa_supplicant(network(ssid), identity="laptop", files=FILES).splitlines()
    block = lines.index("network={")
    assert (lines[:block], lines[-1]) == (before, "}")
    assert all(line.startswith("\t") for line in lines[block + 1 : -1])


def test_network_manager_opens_the_bundle_with_its_password(alpha, app_engine, tmp_path):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        issued = alpha.issue(session)
    add = ["nmcli", "--offline", "connection", "add", "type", "wifi", "con-name", "office", "ssid", "Office"]
    add += ["wifi-sec.key-mgmt", "wpa-eap", "802-1x.eap", "tls", "802-1x.identity", "laptop", "802-1x.private-key"]
    for legacy in (False, True):
        (tmp_path / "device.p12").write_bytes(
            certificates.build_pkcs12_file(issued, password="correct-horse", legacy=legacy)
        )
        for password, opened in (("correct-horse", True), ("wrong-horse", False)):
            key = f"{tmp_path}/device.p12 {password}"
            done = subprocess.run([*add, key], capture_output=True, text=True, timeout=30)
            assert (done.returncode == 0) == opened, done.stderr


def test_every_format_names_both_roots_during_a_rollover():
    named = {"identity": "laptop", "folder": "/etc/admit"}
    for form in ("wpa_supplicant", "networkmanager", "android"):
        files = service.export_files(network(), form=form, **named)
        assert tuple(x509.load_pem_x509_certificates(files["ca.pem"])) == ROOTS
    assert SERVER in files["README.txt"].decode()
    wired = service.export_files(network(""), form="android", **named)
    assert "wired networks" in wired["README.txt"].decode()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: network("x" * 33), "ssid"),
        (lambda: network("a\nb"), "ssid"),
        (lambda: network(anchors=()), "server"),
        (lambda: service.export_files(network(), form="wpa_supplicant", identity="x", folder="/a b"), "path"),
        (lambda: service.export_files(network(), form="wpa_supplicant", identity="x", folder="relative"), "path"),
        (lambda: service.export_files(network(), form="apple", identity="a\nb", folder="/x"), "identity"),
    ],
)
def test_values_unusable_in_files_are_rejected(make, complaint):
    with pytest.raises(InvalidNetwork) as caught:
        make()
    assert caught.value.place == complaint


def names(alpha: Certified, app_engine: Engine, more: Iterable[str] = ()) -> tuple[str, ...]:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        found = service.describe_network(
            session, tenant_id=alpha.tenant_id, now=alpha.now + timedelta(minutes=1), server_names=tuple(more)
        )
    assert [item.public_bytes(Encoding.DER) for item in found.anchors] == [alpha.authorities.root.certificate_der]
    return found.server_names


def test_network_is_described_by_the_tenant_certificates(alpha, app_engine):
    assert names(alpha, app_engine) == ("radius.alpha.admit.example",)
    assert names(alpha, app_engine, ["Radius2.alpha.example"])[1:] == ("radius2.alpha.example",)
