"""EAP-TLS with eapol_test: permitted and rejected devices. Each reject has a reason and EAP-Failure."""

import os
from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from loadtest.eap_tls_client import EapTls, Supplicant
from nac.certificates.supplicants import linux
from nac.certificates.supplicants.network import IdentityFiles, SupplicantNetwork
from nac.kit.radius_packet import ACCESS_REJECT, CALLING_STATION_ID, encode_attribute
from pki.bundles import certificates_pem
from pki.issuance import issue_root
from pki.keys import generate_key, load_key
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.engine.builders import compare, pinned
from tests.radius.devices import VERSIONS, Device
from tests.radius.nas import Nas
from tests.radius.supplicant import TLS_1_1, TLS_1_2, TLS_1_3, EapolTestResult, EapolTestRun, eap_tls, new_mac
from tests.radius.tenants import Authorities, Tenant
from tests.radius.tunnel import anonymous_context

both_versions = pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
both_tenants = pytest.mark.parametrize("slug", ["alpha", "bravo"])


def assert_refused(cell, seen, reason, *, method="eap-tls"):
    assert not seen.accepted
    assert (seen.codes[-1], seen.eap_failure, seen.vlans) == ("Access-Reject", True, [])
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (False, reason, method)
    assert record.mac == seen.mac
    return record


@both_versions
@both_tenants
def test_valid_certificate_is_permitted(cell, slug, version):
    """`radiusd` chooses alpha's server certificate for each session.

    Bravo's server certificate is in its configuration.
    """
    tenant = cell.tenants[slug]
    client = tenant.clients["laptop"]
    seen = eap_tls(tenant, client, version, identity="anonymous", attributes=("32:s:switch-1",)).run()
    assert seen.accepted
    assert seen.vlans == ["10"]
    record = cell.decision()
    assert (record.permitted, record.reason, record.rule_id) == (True, "rule-permitted", "machines")
    assert (record.method, record.tls_version, record.resumed) == ("eap-tls", version, False)
    assert (record.tenant_id, record.nas_id, record.mac) == (tenant.tenant_id, tenant.nas_id, seen.mac)
    assert record.certificate_serial == client.serial
    # Policy, log and accounting use the name in the certificate, not the outer identity.
    assert record.identity == "laptop"
    assert seen.accept_user_names == ["laptop"]
    assert record.request["identity"] == ("laptop",)
    assert record.request["certificate.san.dns"] == ("laptop.example",)
    assert record.request["certificate.profile"] == ("eap-client-device",)


@both_versions
@pytest.mark.parametrize(
    ("client", "reason"),
    [
        ("revoked", "certificate-revoked"),
        ("suspended", "certificate-suspended"),
        ("unknown", "certificate-unknown"),
        ("expired", "certificate-expired"),
        ("early", "certificate-not-yet-valid"),
        ("server", "wrong-key-usage"),
    ],
)
def test_invalid_certificate_of_our_authority_is_rejected(cell, client, reason, version):
    record = assert_refused(cell, eap_tls(cell.alpha, cell.alpha.clients[client], version).run(), reason)
    assert record.certificate_serial == cell.alpha.clients[client].serial


@both_versions
@pytest.mark.parametrize("profile", ["radsec-nas", "eap-server", ""])
def test_certificate_for_another_purpose_is_rejected(cell, version, profile):
    """A RadSec client certificate is from the tenant's authority and valid for clientAuth."""
    laptop = cell.alpha.clients["laptop"]
    cell.put_certificate(laptop, profile=profile)
    assert_refused(cell, eap_tls(cell.alpha, laptop, version).run(), "wrong-key-usage")


def stranger(cell, folder):
    """A certificate of an authority that nobody trusts."""
    return Authorities(folder / "stranger", "Mallory").client("laptop")


def stranger_without_chain(cell, folder):
    laptop = stranger(cell, folder)
    laptop.chain_file.write_bytes(certificates_pem([laptop.certificate]))
    return laptop


def forged(cell, folder):
    """A certificate of an authority with the name of the tenant's authority."""
    return Authorities(folder / "forged", "Alpha").client("laptop")


def self_signed(cell, folder):
    key, name = generate_key(), subject_name("laptop", organisation="Alpha")
    now = cell.alpha.authorities.now
    certificate = issue_root(PROFILES["root"], key=key, subject=name, now=now, serial=random_serial())
    pem = certificate.public_bytes(Encoding.PEM)
    return cell.alpha.authorities.write_client("self-signed", certificate, key, chain=pem)


def tampered(cell, folder):
    """A certificate with another name under the original signature."""
    laptop = cell.alpha.clients["laptop"]
    encoded = bytearray(laptop.certificate.public_bytes(Encoding.DER))
    place = encoded.rindex(b"laptop")
    encoded[place : place + 6] = b"server"
    key = load_key(laptop.key_file.read_bytes())
    certificate = x509.load_der_x509_certificate(bytes(encoded))
    return cell.alpha.authorities.write_client("tampered", certificate, key)


@both_versions
@pytest.mark.parametrize(
    ("make", "issuer"),
    [
        (stranger, "/O=Mallory/CN=Mallory Root CA"),
        (stranger_without_chain, "/O=Mallory/CN=Mallory Issuing CA"),
        (forged, ""),
        (self_signed, ""),
        (tampered, ""),
    ],
)
def test_certificate_of_an_unknown_authority_is_rejected(cell, tmp_path, version, make, issuer):
    assert_refused(cell, eap_tls(cell.alpha, make(cell, tmp_path), version).run(), "unknown-ca")
    if issuer:
        assert cell.decision().detail.endswith(f"; issuer: {issuer}")


@both_versions
@both_tenants
def test_certificate_of_the_other_tenant_is_rejected(cell, slug, version):
    tenant, other = cell.tenants[slug], cell.bravo if slug == "alpha" else cell.alpha
    assert_refused(cell, eap_tls(tenant, other.clients["laptop"], version).run(), "wrong-tenant-ca")


@pytest.mark.parametrize("version", VERSIONS)
def test_device_without_a_certificate_is_rejected(cell, version):
    supplicant = Supplicant(anonymous_context(version), "nobody", encode_attribute(CALLING_STATION_ID, new_mac()))
    assert Nas(cell.alpha).converse(EapTls(None, supplicant, expected=ACCESS_REJECT)) == ""
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (False, "no-certificate", "eap-tls")


def test_device_with_only_tls_1_1_is_rejected_with_a_reason(cell):
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"], TLS_1_1).run()
    assert_refused(cell, seen, "tls-version")


@pytest.mark.parametrize("ciphers", ["AES128-SHA", "ECDHE-ECDSA-AES128-SHA256"])
def test_device_without_a_common_cipher_is_rejected(cell, ciphers):
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"], TLS_1_2, ciphers=ciphers).run()
    assert_refused(cell, seen, "no-common-cipher")


@both_versions
def test_device_that_distrusts_the_server_is_logged(cell, version):
    trusted = cell.bravo.authorities.root_file
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"], version, trusts=trusted).run()
    record = assert_refused(cell, seen, "supplicant-alert")
    assert record.detail == "fatal unknown CA"


def test_device_without_a_common_method_is_rejected(cell):
    """`eapol_test` without a certificate answers NAK with type 0 (RFC 3748 5.3.1)."""
    assert_refused(cell, eap_tls(cell.alpha, None).run(), "method-not-offered", method="eap")


@both_versions
@both_tenants
def test_mac_address_as_identity_may_use_a_certificate(cell, slug, version):
    """`radiusd` proposes MD5 first. The device still needs a certificate of the tenant."""
    tenant, mac = cell.tenants[slug], new_mac()
    seen = eap_tls(tenant, tenant.clients["laptop"], version, identity=mac, mac=mac).run()
    assert seen.accepted
    record = cell.decision()
    assert (record.permitted, record.method, record.identity) == (True, "eap-tls", "laptop")


@both_versions
def test_rule_denies_a_valid_certificate_with_eap_failure(cell, version):
    cell.set_policy({"pinned_denies": [pinned("laptops", compare("certificate.common_name", "equals", "laptop"))]})
    record = assert_refused(cell, eap_tls(cell.alpha, cell.alpha.clients["laptop"], version).run(), "pinned-deny")
    assert (record.rule_id, record.policy_version) == ("laptops", 8)


@pytest.mark.parametrize(
    ("version", "cipher"),
    [(VERSIONS[0], "ECDHE-ECDSA-AES128-GCM-SHA256"), (VERSIONS[1], "TLS_AES_128_GCM_SHA256")],
)
def test_cell_prefers_the_cheapest_cipher(cell, version, cipher):
    """OpenSSL clients prefer AES-256."""
    assert Device(cell.alpha.clients["laptop"], version).visit(cell.alpha, vlan="10").cipher == cipher


def test_radiusd_threads_have_batch_scheduling(cell):
    threads = [int(name) for name in os.listdir(f"/proc/{cell.running.pid}/task")]
    assert len(threads) > 1
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_BATCH}


def try_export(
    tenant: Tenant, folder: Path, *, ssid: str, server_name: str, trusted: Tenant | None = None
) -> EapolTestResult:
    """Run eapol_test with the exported file.

    The file contains the roots of `tenant` and, as in a rollover, another root.
    """
    client, roots = tenant.clients["laptop"], folder / "ca.pem"
    anchors = (trusted or tenant).authorities.root.certificate
    network = SupplicantNetwork(
        tenant_id=UUID(tenant.tenant_id),
        organisation="Alpha",
        ssid=ssid,
        anchors=(anchors,),
        server_names=("radius2.example", server_name),
    )
    roots.write_bytes(certificates_pem(network.anchors))
    files = IdentityFiles(str(roots), str(client.chain_file), str(client.key_file))
    configuration = folder / "wpa_supplicant.conf"
    configuration.write_text(linux.render_wpa_supplicant(network, identity='lap"top', files=files))
    return EapolTestRun(tenant, configuration).run()


@pytest.mark.parametrize("ssid", ["", 'Off"ice', "Öffice"])
def test_exported_configuration_is_parsed_and_connects(cell, tmp_path: Path, ssid: str):
    seen = try_export(cell.alpha, tmp_path, ssid=ssid, server_name="radius.alpha.example")
    assert seen.accepted, seen.output[-2000:]
    # In the format of eapol_test's output.
    assert 'lap\\"top' in seen.user_names
    assert cell.decision().reason == "rule-permitted"


def test_server_with_another_name_or_root_is_rejected(cell, tmp_path: Path):
    other_name = try_export(cell.alpha, tmp_path, ssid="", server_name="radius.bravo.example")
    assert not other_name.accepted
    assert "Domain match 'radius2.example;radius.bravo.example' not found" in other_name.output
    other_root = try_export(
        cell.alpha, tmp_path, ssid="", server_name="radius.alpha.example", trusted=cell.tenants["bravo"]
    )
    assert not other_root.accepted
    assert "unable to get local issuer certificate" in other_root.output or "self-signed" in other_root.output
