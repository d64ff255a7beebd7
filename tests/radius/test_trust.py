"""Trust depends on the key that signed a device's certificate, not on a name.

OpenSSL may still have an authority that the tenant does not trust any more.
"""

import ssl

import pytest

from nac.cellformat.replica.records import CertificateRecord, ExternalStatusRecord, SlotRecord
from nac.cellformat.replica.store import ReplicaWriter
from nac.kit.radius_packet import ACCESS_REJECT
from pki import der as asn1
from pki.openssl_names import subject_line
from radius.module import trust
from radius.module.tls_sessions import certificate_attributes
from radius.module.trust import check_certificate, find_issuer
from tests.certificates.uploads import weak_key
from tests.pki import raw_certificates
from tests.radius.client_certificates import issued_client, subject
from tests.radius.devices import VERSIONS, Device, is_resumed
from tests.radius.imitations import imitate
from tests.radius.odd_certificates import odd_client
from tests.radius.supplicant import TLS_1_2, TLS_1_3, eap_tls
from tests.radius.tenants import Authorities, der
from tests.radius.trusted_authorities import put_issuer, put_trusted, trusted
from tests.replica.contents import view_of

both = pytest.mark.parametrize("version", VERSIONS)
both_names = pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])


@pytest.fixture(scope="module")
def corporate(standalone_cell, tmp_path_factory):
    """An external authority of the customer."""
    return Authorities(tmp_path_factory.mktemp("corporate") / "acme", "Acme")


@pytest.fixture
def files(cell):
    """Function that changes alpha's trust directory."""
    yield cell.trust_in_openssl
    cell.trust_in_openssl()


def trust_only(cell, *authorities, **changes):
    """Trust these authorities of alpha, and no others of their names."""
    with cell.changes() as batch:
        for certificate in authorities:
            put_trusted(batch, cell.alpha.number, certificate, **changes)


@pytest.fixture
def trusting(cell, files, corporate):
    """Alpha, which trusts the customer's authority."""
    cell.set_slot(own_authorities_only=False)
    trust_only(cell, *corporate.certificates)
    files(*corporate.certificates)
    return cell.alpha


def corporate_laptop(corporate, name="corporate-laptop"):
    return issued_client(corporate, name, subject(CN=name))


class TestImitation:
    """A sub-CA of bravo's customer that copies names and key identifiers of alpha's authority."""

    @both_names
    @pytest.mark.parametrize("sent", ["itself", "bravo's root", "alpha's root"])
    def test_copied_sub_ca_is_rejected(self, cell, version, sent):
        alpha, bravo = cell.alpha.authorities, cell.bravo.authorities
        fake = imitate(alpha.issuing.certificate, bravo, signed_by=bravo.root)
        chain = {"itself": (), "bravo's root": (bravo.root.certificate,), "alpha's root": (alpha.root.certificate,)}
        client = fake.client("fake", *chain[sent], of=cell.alpha.clients["laptop"])
        seen = eap_tls(cell.alpha, client, version).run()
        assert not seen.accepted
        assert seen.codes[-1] == "Access-Reject"
        assert not cell.decision().permitted

    @both_names
    def test_copied_sub_ca_trusted_by_openssl_is_rejected_by_key(self, cell, files, version):
        """OpenSSL may have such an authority after its removal, or because it belongs to another tenant."""
        alpha, bravo = cell.alpha.authorities, cell.bravo.authorities
        root = imitate(alpha.root.certificate, bravo)
        fake = imitate(alpha.issuing.certificate, bravo, signed_by=root.issuer)
        files(fake.issuer.certificate, root.issuer.certificate)
        client = fake.client("fake", root.issuer.certificate, of=cell.alpha.clients["laptop"])
        assert not eap_tls(cell.alpha, client, version).run().accepted
        assert not cell.decision().permitted

    @both_names
    def test_only_copied_sub_ca_in_openssls_store_is_rejected(
        self, cell, trusting, files, corporate, version, tmp_path
    ):
        """OpenSSL then knows only the imitation, so the module must reject it."""
        imitated = Authorities(tmp_path / "imitated", f"Globex {version}")
        trust_only(cell, *imitated.certificates)
        fake = imitate(imitated.issuing.certificate, corporate, signed_by=corporate.root)
        client = fake.client("fake", of=imitated.client("laptop"))
        files(*corporate.certificates)
        assert not eap_tls(trusting, client, version).run().accepted
        assert cell.decision().reason == "imitated-ca"

    @both_names
    def test_certificate_of_a_missing_sub_ca_has_unknown_authority(self, cell, trusting, corporate, version, tmp_path):
        other = Authorities(tmp_path / "other", f"Other {version}")
        below = imitate(other.issuing.certificate, corporate, signed_by=corporate.root)
        assert not eap_tls(trusting, below.client("below", of=other.client("laptop")), version).run().accepted
        assert cell.decision().reason == "unknown-ca"


class TestExternal:
    @both
    def test_external_device_is_admitted_and_reported_once(self, cell, trusting, corporate, version):
        client = corporate_laptop(corporate, f"told-{version.name}")
        device = Device(client, version)
        device.visit(trusting, vlan="10")
        for _ in range(2):
            assert is_resumed(device.visit(trusting, vlan="10"))
        Device(trusting.clients["laptop"], version).visit(trusting, vlan="10")
        first, *others = cell.decisions()
        with view_of(cell.replica) as view:
            issuer = view.issuer(trusting.number, subject_line(corporate.issuing.certificate))
        assert first.external_authority == issuer.authorities[0].authority_id
        assert first.external_certificate == der(client.certificate)
        assert {(record.external_authority, record.external_certificate) for record in others} == {("", b"")}

    @both
    @pytest.mark.parametrize("weakness", [{"key": weak_key()}, {"uses_sha1": True}], ids=["1024 bits", "sha1"])
    def test_weak_certificate_of_a_trusted_authority_is_rejected(self, cell, trusting, corporate, version, weakness):
        name = [(raw_certificates.COMMON_NAME, asn1.UTF8_STRING, b"laptop")]
        Device(odd_client(corporate, "strong", name), version).visit(trusting, vlan="10")
        weak = Device(odd_client(corporate, "weak", name, **weakness), version, ciphers="DEFAULT@SECLEVEL=0")
        weak.visit(trusting, expected=ACCESS_REJECT)
        assert [record.reason for record in cell.decisions()] == ["rule-permitted", "certificate-invalid"]

    @both
    def test_external_device_is_rejected_at_the_other_tenant(self, cell, trusting, corporate, version):
        device = Device(corporate_laptop(corporate), version)
        device.visit(trusting, vlan="10")
        device.visit(cell.bravo, expected=ACCESS_REJECT)
        assert not cell.decisions()[-1].permitted

    @both
    def test_removed_authority_is_rejected_although_openssl_has_it(self, cell, trusting, corporate, version):
        device = Device(corporate_laptop(corporate), version)
        device.visit(trusting, vlan="10")
        with cell.changes() as batch:
            batch.clear_authorities()
        trust_only(cell, *trusting.authorities.certificates, own=True)
        assert is_resumed(device.visit(trusting, expected=ACCESS_REJECT))
        device.visit(trusting, expected=ACCESS_REJECT)
        # OpenSSL reports no error in a full handshake.
        fresh = Device(corporate_laptop(corporate), version)
        assert not is_resumed(fresh.visit(trusting, expected=ACCESS_REJECT))
        refused = [(record.reason, record.detail) for record in cell.decisions()[1:]]
        assert refused == [("unknown-ca", f"issuer: {subject_line(corporate.issuing.certificate)}")] * 3

    @both
    def test_authorities_of_one_name_admit_only_their_own_devices(self, cell, trusting, files, version, tmp_path):
        old, new = (Authorities(tmp_path / name, f"Twins {version}") for name in ("old", "new"))
        files(*old.certificates, *new.certificates)
        with cell.changes() as batch:
            for pair in zip(old.certificates, new.certificates, strict=True):
                put_trusted(batch, trusting.number, *pair)
        # OpenSSL uses the key identifier to select among authorities with one name.
        old_device, new_device = (Device(each.client("laptop"), version) for each in (old, new))
        for device in (old_device, new_device):
            device.visit(trusting, vlan="10")
            assert is_resumed(device.visit(trusting, vlan="10"))
        trust_only(cell, *new.certificates)
        assert is_resumed(old_device.visit(trusting, expected=ACCESS_REJECT))
        assert cell.decisions()[-1].reason == "imitated-ca"
        assert is_resumed(new_device.visit(trusting, vlan="10"))


@both
@pytest.mark.parametrize("state", ["ca-revoked", "ca-expired"])
def test_distrusted_authority_is_rejected_on_resumption(cell, version, state):
    device = Device(cell.alpha.clients["laptop"], version)
    device.visit(cell.alpha, vlan="10")
    changes = {"revoked": True} if state == "ca-revoked" else {"not_after": 1}
    trust_only(cell, cell.alpha.authorities.issuing.certificate, own=True, **changes)
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT))
    device.visit(cell.alpha, expected=ACCESS_REJECT)
    assert [record.reason for record in cell.decisions()[1:]] == [state] * 2


def test_rejected_session_is_deleted(cell):
    """TLS 1.2 has one session for each device. With TLS 1.3, sessions of earlier visits remain and are rejected."""
    spare = cell.alpha.clients["spare"]
    device = Device(spare, ssl.TLSVersion.TLSv1_2)
    device.visit(cell.alpha, vlan="10")
    cell.put_certificate(spare, status="suspended")
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT))
    cell.put_certificate(spare)
    assert not is_resumed(device.visit(cell.alpha, vlan="10"))


@both
def test_revoked_external_certificate_is_rejected_on_resume(cell, trusting, corporate, version):
    client = corporate_laptop(corporate)
    device = Device(client, version)
    with cell.changes() as batch:
        authority = trusted(corporate.issuing.certificate)
        put_issuer(batch, trusting.number, subject_line(corporate.issuing.certificate), authority)
    device.visit(trusting, vlan="10")
    with cell.changes() as batch:
        record = ExternalStatusRecord(True, 0)
        batch.put_external_status(trusting.number, authority.authority_id, client.serial, record)
    assert is_resumed(device.visit(trusting, expected=ACCESS_REJECT))
    assert cell.decisions()[-1].reason == "certificate-revoked"


NOW = 1_800_000_000
LATER, EARLIER = NOW + 60, NOW - 60


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Authorities(tmp_path_factory.mktemp("made") / "a", "Made")


class TestTable:
    """Decision table: each status of an authority and of a certificate, with each near miss next to its hit."""

    @pytest.fixture
    def check(self, made, tmp_path):
        client = made.client("laptop")
        issuing = made.issuing.certificate

        def check(*authorities, status="", told=None, stored=True, profile="eap-client-device", **slot):
            record, facts = SlotRecord(1, "t", "t", "active", "", "", 1, 1, **slot), {}
            octets = der(client.certificate)
            shown = certificate_attributes(octets)
            with ReplicaWriter(tmp_path / "replica", fresh=True) as writer:
                with writer.begin() as batch:
                    if authorities:
                        put_issuer(batch, 1, subject_line(issuing), *authorities)
                    if status:
                        batch.put_certificate(1, client.serial, CertificateRecord("", status, profile, "", ""))
                    if told:
                        batch.put_external_status(1, authorities[0].authority_id, client.serial, told)
                with view_of(writer) as view:
                    issuer = find_issuer(shown, view, record)
                    reason = check_certificate(shown, octets if stored else b"", issuer, view, record, facts, at=NOW)
            assert bool(facts) == (not reason) or reason.startswith(("certificate-", "wrong-"))
            return reason

        return check

    @pytest.mark.parametrize(
        ("changes", "stored", "reason"),
        [
            ({}, {"status": "valid"}, ""),
            ({}, {}, "certificate-unknown"),
            ({}, {"status": "revoked"}, "certificate-revoked"),
            ({}, {"status": "suspended"}, "certificate-suspended"),
            *(({}, {"status": "valid", "profile": each}, "wrong-key-usage") for each in ("radsec-nas", "eap-client")),
            ({"revoked": True}, {"status": "valid"}, "ca-revoked"),
            ({"not_after": NOW}, {"status": "valid"}, ""),
            ({"not_after": NOW - 1}, {"status": "valid"}, "ca-expired"),
            ({"public_key": b""}, {"status": "valid"}, "imitated-ca"),
            ({"public_key": b"no key"}, {"status": "valid"}, "imitated-ca"),
        ],
    )
    def test_own_certificate(self, check, made, changes, stored, reason):
        own = trusted(made.issuing.certificate, own=True, **{"not_after": LATER} | changes)
        assert check(own, **stored) == reason

    @pytest.mark.parametrize(
        ("required", "listed_until", "told", "reason"),
        [
            (False, 0, None, ""),
            (False, EARLIER, None, ""),
            (False, 0, ExternalStatusRecord(True, 0), "certificate-revoked"),
            (False, LATER, ExternalStatusRecord(True, EARLIER), "certificate-revoked"),
            (True, 0, None, "certificate-status-unknown"),
            (True, EARLIER, None, "certificate-status-unknown"),
            (True, LATER, None, ""),
            (True, LATER, ExternalStatusRecord(True, LATER), "certificate-revoked"),
            (True, 0, ExternalStatusRecord(False, LATER), ""),
            (True, EARLIER, ExternalStatusRecord(False, EARLIER), "certificate-status-unknown"),
        ],
    )
    def test_external_certificate(self, check, made, required, listed_until, told, reason):
        external = trusted(made.issuing.certificate, not_after=LATER, listed_until=listed_until)
        # A foreign authority that uses Admit's serial numbers gains and loses nothing.
        for status in ("valid", "revoked", ""):
            assert check(external, told=told, status=status, status_required=required) == reason

    def test_untrusted_issuer_name(self, check):
        assert check(status="valid") == "unknown-ca"

    def test_key_selects_among_authorities_of_one_name(self, check, made, tmp_path):
        other = Authorities(tmp_path / "other", "Made").issuing.certificate
        good, other_key = trusted(made.issuing.certificate, not_after=LATER), trusted(other, not_after=LATER)
        assert check(other_key, good) == ""
        assert check(other_key) == "imitated-ca"
        assert check(other_key, trusted(made.issuing.certificate, revoked=True)) == "ca-revoked"

    @pytest.mark.parametrize(
        ("only", "count", "reason"),
        [(True, 1, ""), (False, 1, "certificate-unread"), (True, 2, "certificate-unread")],
    )
    def test_unstored_certificate_uses_its_unambiguous_name(self, check, made, only, count, reason):
        own = [trusted(made.issuing.certificate, own=True, not_after=LATER) for _ in range(count)]
        assert check(*own, status="valid", stored=False, own_authorities_only=only) == reason

    def test_signature_is_verified_once_until_its_authority_changes(self, check, made, monkeypatch):
        checked = []
        monkeypatch.setattr(trust, "_signers", type(trust._signers)())
        verify = trust.is_signed_with
        monkeypatch.setattr(trust, "is_signed_with", lambda *given: checked.append(1) or verify(*given))
        first = trusted(made.issuing.certificate, not_after=LATER)
        assert [check(first), check(first)] == ["", ""]
        assert len(checked) == 1
        assert check(trusted(made.issuing.certificate, not_after=LATER)) == ""
        assert len(checked) == 2

    def test_cache_is_bounded(self, check, made, monkeypatch):
        monkeypatch.setattr(trust, "_signers", type(trust._signers)())
        monkeypatch.setattr(trust, "MAX_CERTIFICATES", 0)
        assert check(trusted(made.issuing.certificate, not_after=LATER)) == ""
        assert len(trust._signers) == 0
