"""External authorities. The cell sends presented certificates to the database, and receives trust and revocations."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.cellformat.replica.records import ExternalStatusRecord, IssuerRecord
from nac.kit.clock import utc_now
from pki.openssl_names import subject_line
from pki.signatures import public_key_der
from radius.agent.shipping import external_certificates
from radius.agent.shipping.external_certificates import ExternalCertificates
from tests.agent.journal_records import AT, SECOND, auth
from tests.certificates.uploads import authority
from tests.run_depth import examples

NOW = utc_now()
ROOT = authority("Corp Root", NOW)
ISSUING = authority("Corp Issuing", NOW, by=ROOT)


def address(url):
    return x509.UniformResourceIdentifier(url)


def laptop(name="laptop", *, crl_urls=(), ocsp_urls=()):
    extensions = []
    if crl_urls:
        point = x509.DistributionPoint([address(url) for url in crl_urls], None, None, None)
        extensions.append((x509.CRLDistributionPoints([point]), False))
    if ocsp_urls:
        kind = AuthorityInformationAccessOID.OCSP
        access = [x509.AccessDescription(kind, address(url)) for url in ocsp_urls]
        extensions.append((x509.AuthorityInformationAccess(access), False))
    return authority(name, NOW, by=ISSUING, ca=False, extensions=tuple(extensions))


def der(issuer):
    return issuer.certificate.public_bytes(Encoding.DER)


@pytest.fixture
def trust(owner):
    def trust(tenant, issuer, *, above=None, status="active"):
        (authority_id,) = owner.execute(
            "INSERT INTO certificate_authorities (tenant_id, kind, name, subject, certificate_der, key_id, not_before, "
            "not_after, issuer_id, status) VALUES (%s, 'external', 'CA', %s, %s, '', %s, %s, %s, %s) RETURNING id",
            (
                tenant.id,
                subject_line(issuer.certificate),
                der(issuer),
                issuer.certificate.not_valid_before_utc,
                issuer.certificate.not_valid_after_utc,
                above,
                status,
            ),
        ).fetchone()
        return authority_id

    return trust


LAPTOP = der(laptop(crl_urls=["http://crl.example/"], ocsp_urls=["http://ocsp.example/"]))


def presented_certificates(owner, columns="common_name, crl_urls, ocsp_urls"):
    return owner.execute(f"SELECT {columns} FROM external_certificates ORDER BY common_name").fetchall()


class TestPresentedCertificates:
    @pytest.fixture
    def present(self, alpha, journal):
        def present(authority_id, leaf, seconds=0):
            told = {"external_authority": str(authority_id), "external_certificate": der(leaf)}
            journal.ship(auth(alpha, at=AT + seconds * SECOND, **told))

        return present

    def test_certificate_is_stored_with_its_status_addresses(self, owner, alpha, trust, present):
        authority_id = trust(alpha, ISSUING)
        urls = ["ldap://ad.example/cn=crl", "http://crl.example/1.crl"]
        leaf = laptop(crl_urls=urls, ocsp_urls=["http://ocsp.example/"])
        present(authority_id, leaf)
        assert presented_certificates(owner) == [("laptop", urls[1:], ["http://ocsp.example/"])]
        ((serial,),) = presented_certificates(owner, "encode(serial, 'hex')")
        assert int(serial, 16) == leaf.certificate.serial_number
        present(authority_id, leaf, seconds=1)
        assert presented_certificates(owner, "last_seen_at - first_seen_at = interval '1 second'") == [(True,)]

    def test_certificate_of_a_foreign_or_deleted_ca_is_not_stored(self, owner, make, trust, present):
        bravo = make("bravo")
        for authority_id in (trust(bravo, ISSUING), bravo.id):
            present(authority_id, laptop())
        assert presented_certificates(owner) == []
        assert owner.execute("SELECT count(*) FROM quarantined_records").fetchone() == (0,)

    def test_number_is_limited_and_known_ones_are_updated(self, owner, alpha, trust, present, monkeypatch):
        monkeypatch.setattr(external_certificates, "MAX_CERTIFICATES", 1)
        authority_id = trust(alpha, ISSUING)
        leaves = [laptop(name) for name in ("first", "second")]
        for seconds, leaf in ((0, leaves[0]), (1, leaves[1]), (2, leaves[0])):
            present(authority_id, leaf, seconds)
        columns = "common_name, last_seen_at - first_seen_at = interval '2 seconds'"
        assert presented_certificates(owner, columns) == [("first", True)]

    def read(self, certificate: bytes) -> ExternalCertificates:
        class Alpha:
            slot, id = 0, "00000000-0000-0000-0000-000000000001"

        batch = ExternalCertificates()
        batch.add(auth(Alpha, external_authority="a", external_certificate=certificate))
        return batch

    def test_certificate_of_another_version_is_skipped(self):
        # X.509 v2 instead of v3 (RFC 5280 4.1.2.1).
        version = LAPTOP.index(b"\xa0\x03\x02\x01\x02") + 4
        changed = LAPTOP[:version] + b"\x01" + LAPTOP[version + 1 :]
        assert self.read(changed)._shown == {}
        assert public_key_der(changed) == b""

    @pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
    @settings(max_examples=examples(200), deadline=None)
    @given(data=st.data())
    def test_damaged_certificate_is_skipped(self, data):
        changed = bytearray(LAPTOP)
        for _ in range(data.draw(st.integers(1, 4))):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        batch = self.read(bytes(changed))
        for row in batch._shown.values():
            assert all(url.lower().startswith("http") for url in (*row.crl_urls, *row.ocsp_urls))
            assert "\0" not in row.common_name


class TestReplica:
    def issuer(self, replica, tenant, which=ISSUING) -> IssuerRecord | None:
        with replica.catch_up().view as view:
            return view.issuer(tenant.number, subject_line(which.certificate))

    def test_authority_is_mirrored_revoked_and_deleted(self, owner, alpha, replica, trust):
        root = trust(alpha, ROOT)
        authority_id = trust(alpha, ISSUING, above=root)
        (record,) = self.issuer(replica, alpha).authorities
        assert (record.authority_id, record.own, record.revoked) == (str(authority_id), False, False)
        assert record.public_key == public_key_der(der(ISSUING))
        # A revoked root revokes its descendants.
        owner.execute("UPDATE certificate_authorities SET status = 'revoked' WHERE id = %s", (root,))
        (record,) = self.issuer(replica, alpha).authorities
        assert record.revoked
        owner.execute("DELETE FROM certificate_authorities WHERE id = %s", (authority_id,))
        assert self.issuer(replica, alpha) is None

    def test_authorities_of_one_name_stay_within_their_tenant(self, owner, make, alpha, replica, trust):
        bravo = make("bravo")
        trust(alpha, ROOT)
        trust(alpha, authority("Corp Root", NOW))
        trust(bravo, ROOT)
        assert len(self.issuer(replica, alpha, ROOT).authorities) == 2
        assert len(self.issuer(replica, bravo, ROOT).authorities) == 1

    def test_crl_status_and_freshness_are_mirrored(self, owner, alpha, replica, trust, fresh_replica):
        authority_id = trust(alpha, ISSUING)
        owner.execute(
            "INSERT INTO external_statuses (tenant_id, authority_id, serial, listed) SELECT %s, %s, "
            "decode(lpad(to_hex(n), 4, '0'), 'hex'), true FROM generate_series(256, 300) n",
            (alpha.id, authority_id),
        )
        owner.execute(
            "INSERT INTO status_sources (tenant_id, authority_id, crl_next_update) VALUES (%s, %s, to_timestamp(4e9))",
            (alpha.id, authority_id),
        )
        (record,) = self.issuer(replica, alpha).authorities
        assert record.listed_until == 4_000_000_000
        with replica.view as view:
            assert view.external_status(alpha.number, str(authority_id), "0100") == ExternalStatusRecord(True, 0)
            assert view.external_status(alpha.number, str(authority_id), "0200") is None
        owner.execute("DELETE FROM external_statuses WHERE serial = '\\x0100'")
        owner.execute(
            "UPDATE external_statuses SET listed = false, answer = 'good', until = to_timestamp(4e9) "
            "WHERE serial = '\\x0101'"
        )
        with replica.catch_up().view as view:
            assert view.external_status(alpha.number, str(authority_id), "0100") is None
            told = view.external_status(alpha.number, str(authority_id), "0101")
            assert told == ExternalStatusRecord(False, 4_000_000_000)
        assert replica.everything["statuses"] == fresh_replica().everything["statuses"]
        owner.execute("DELETE FROM certificate_authorities WHERE id = %s", (authority_id,))
        assert replica.catch_up().everything["statuses"] == {}
