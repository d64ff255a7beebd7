"""Upload of external authorities. A response reports every error at once, and then nothing is stored."""

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from cryptography.x509.oid import ExtendedKeyUsageOID
from sqlalchemy import Engine, func, select

from nac.certificates import external_authorities
from nac.certificates.external_authorities import InvalidUpload, delete_authority, import_authorities
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import InvalidInput
from nac.models import AuditEntry, CertificateAuthority, StatusSource, Tenant
from pki.bundles import certificates_pem
from pki.issuance import Issuer
from pki.keys import key_pem
from tests.certificates.uploads import DAY, authority, name_of, pem, weak_key
from tests.factories.certificates import Certified
from tests.factories.tenancy import ACTOR
from tests.pki.openssl import openssl

NOW = utc_now()


@pytest.fixture(scope="module")
def root() -> Issuer:
    return authority("Corp Root", NOW)


@pytest.fixture(scope="module")
def issuing(root: Issuer) -> Issuer:
    return authority("Corp Issuing", NOW, by=root)


@pytest.fixture
def upload(app_engine: Engine, alpha: Certified):
    def upload(*contents: bytes, to: Certified = alpha, **more):
        files = [(f"file{number}", content) for number, content in enumerate(contents, 1)]
        with session_scope(TenantScope(to.tenant_id), engine=app_engine) as session:
            given = {"now": NOW} | more
            return import_authorities(session, actor=ACTOR, tenant_id=to.tenant_id, files=files, **given)

    return upload


@pytest.fixture
def externals(app_engine: Engine, alpha: Certified):
    def externals(upload_rejected: Certified = alpha) -> dict[str, CertificateAuthority]:
        with session_scope(TenantScope(upload_rejected.tenant_id), engine=app_engine) as session:
            found = session.scalars(select(CertificateAuthority).where(CertificateAuthority.kind == "external"))
            return {row.name: row for row in found}

    return externals


def refused(upload, *contents: bytes, **more) -> list[str]:
    with pytest.raises(InvalidUpload) as caught:
        upload(*contents, **more)
    return [mistake.message for mistake in caught.value.mistakes]


def as_pkcs7(encoding):
    return lambda *issuers: [pkcs7.serialize_certificates([each.certificate for each in issuers], encoding)]


FORMS = {
    "PEM": lambda *issuers: [pem(*issuers)],
    "DER files": lambda *issuers: [each.certificate.public_bytes(Encoding.DER) for each in issuers],
    "PKCS7 PEM": as_pkcs7(Encoding.PEM),
    "PKCS7 DER": as_pkcs7(Encoding.DER),
}


@pytest.mark.parametrize("form", FORMS)
def test_root_and_intermediate_are_accepted_in_any_format(upload, externals, root, issuing, form):
    imported = upload(*FORMS[form](issuing, root))
    found = externals()
    assert {row.id for row in imported.authorities} == {row.id for row in found.values()}
    assert found["Corp Issuing"].issuer_id == found["Corp Root"].id
    assert found["Corp Root"].issuer_id is None
    assert found["Corp Issuing"].key_sealed is None
    assert not imported.needs_exchange


def test_intermediate_is_stored_after_its_root(upload, externals, root, issuing):
    upload(pem(root))
    upload(pem(issuing))
    assert externals()["Corp Issuing"].issuer_id == externals()["Corp Root"].id


def test_repeated_upload_changes_only_addresses(upload, externals, root, scoped, alpha):
    (first,) = upload(pem(root)).authorities
    (again,) = upload(pem(root), crl_url="http://crl.example/root.crl").authorities
    assert first.id == again.id
    with scoped() as session:
        assert session.get_one(StatusSource, first.id).crl_url == "http://crl.example/root.crl"
        actions = session.scalars(
            select(AuditEntry.action).where(AuditEntry.target == "Corp Root").order_by(AuditEntry.id)
        ).all()
    assert actions == ["authority.import"] * 2


def test_several_tenants_can_trust_the_same_corporate_root(upload, externals, root, bravo):
    upload(pem(root))
    upload(pem(root), to=bravo)
    assert externals(bravo)["Corp Root"].id != externals()["Corp Root"].id


def test_authority_with_an_existing_name_requires_replacement(upload, externals, scoped, alpha):
    assert not upload(pem(authority("Twin", NOW))).needs_exchange
    assert upload(pem(authority("Twin", NOW))).needs_exchange
    with scoped() as session:
        tenant = session.get_one(Tenant, alpha.tenant_id)
        assert (tenant.trusts_external, tenant.trust_generation) == (True, 1)
        assert session.scalar(select(func.count()).where(CertificateAuthority.name == "Twin")) == 2


def certified(subject: x509.Name, public_key: Any = None, *, by: Issuer | None = None) -> x509.Certificate:
    """An authority with this subject and key, by default self-signed with a new key."""
    template = authority("Neutral", NOW, by=by)
    builder = x509.CertificateBuilder(
        issuer_name=by.certificate.subject if by else subject,
        subject_name=subject,
        public_key=public_key or template.key.public_key(),
        serial_number=7,
        not_valid_before=NOW - DAY,
        not_valid_after=NOW + DAY,
        extensions=list(template.certificate.extensions),
    )
    return builder.sign(by.key if by else template.key, hashes.SHA256())


class TestRefusal:
    def upload_rejected(self, upload, externals, *issuers: Issuer) -> list[str]:
        found = refused(upload, pem(*issuers))
        assert externals() == {}
        return found

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"ca": None}, "The certificate is not an authority"),
            ({"ca": False}, "The certificate is not an authority"),
            ({"sign": False}, "The authority may not sign certificates"),
            ({"key": weak_key()}, "1024 bits"),
            ({"not_before": NOW - 9 * DAY, "not_after": NOW - DAY}, "The certificate expired on"),
            ({"not_before": NOW + DAY}, "The certificate is not valid before"),
            ({"extensions": ((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),)}, "lacks clientAuth"),
            (
                {"extensions": ((x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\5\0"), True),)},
                "critical extension 1.2.3.4",
            ),
        ],
    )
    def test_authority_unfit_for_client_certificates(self, upload, externals, changes, says):
        (message,) = self.upload_rejected(upload, externals, authority("Bad", NOW, **changes))
        assert says in message

    def test_intermediate_without_its_root(self, upload, externals, issuing):
        # The second root has the name of the right one, and another key.
        for others in ((), (authority("Corp Root", NOW),)):
            assert "up to the root" in self.upload_rejected(upload, externals, issuing, *others)[0]

    def test_sha1_is_rejected_for_intermediates_but_not_roots(self, upload, externals, tmp_path):
        key, root, request, below = (str(tmp_path / name) for name in ("key", "root", "request", "below"))
        extensions = tmp_path / "extensions"
        extensions.write_text("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n")
        for words in (
            f"req -x509 -sha1 -newkey rsa:2048 -nodes -keyout {key} -out {root} -subj /CN=Old "
            "-addext keyUsage=critical,keyCertSign,cRLSign",
            f"req -new -key {key} -out {request} -subj /CN=Below",
            f"x509 -req -sha1 -in {request} -CA {root} -CAkey {key} -CAcreateserial -extfile {extensions} -out {below}",
        ):
            assert openssl(*words.split()).returncode == 0
        old_root, intermediate = Path(root).read_bytes(), Path(below).read_bytes()
        (message,) = refused(upload, intermediate + old_root, now=utc_now())
        assert message.startswith("The certificate is signed with sha1; SHA-256, SHA-384 or SHA-512 is needed.")
        assert externals() == {}
        upload(old_root, now=utc_now())
        assert set(externals()) == {"Old"}

    def test_all_errors_are_reported_and_nothing_is_stored(self, upload, externals, root, issuing):
        leaf = authority("A laptop", NOW, by=issuing, ca=False)
        expired = authority("Late", NOW, not_before=NOW - 9 * DAY, not_after=NOW - DAY, sign=False)
        with pytest.raises(InvalidUpload) as caught:
            upload(pem(root, issuing, leaf), pem(expired), b"no certificate at all", key_pem(root.key))
        places = [(each.place.partition(" (")[0], each.message[:30]) for each in caught.value.mistakes]
        assert places == [
            ("file3", "The file has no certificate in"),
            ("file4", "The file has a private key. On"),
            ("file1, certificate 3", "The certificate is not an auth"),
            ("file2, certificate 1", "The authority may not sign cer"),
            ("file2, certificate 1", f"The certificate expired on {NOW - DAY:%Y-%m-%d}."[:30]),
        ]
        assert externals() == {}

    @pytest.mark.parametrize("whose", ["alpha", "bravo"])
    @pytest.mark.parametrize("which", ["root", "issuing"])
    def test_authority_made_by_admit_is_rejected_for_any_tenant(self, upload, externals, request, whose, which):
        made = request.getfixturevalue(whose).authorities
        rows = made.root, made.issuing
        certificates = [x509.load_der_x509_certificate(row.certificate_der) for row in rows]
        messages = refused(upload, certificates_pem(certificates if which == "issuing" else certificates[:1]))
        word = "Admit created this authority and already trusts it, so you cannot upload it."
        assert messages == [word] * (2 if which == "issuing" else 1)
        assert externals() == {}

    def test_renamed_authority_made_by_admit_is_rejected(self, upload, externals, bravo, root):
        """Cross-certification changes the name but not the key, and Admit compares the key."""
        made = x509.load_der_x509_certificate(bravo.authorities.issuing.certificate_der)
        cross = certified(name_of("Neutral"), made.public_key(), by=root)
        (message,) = refused(upload, certificates_pem([cross, root.certificate]))
        assert message.startswith("Admit created this authority")
        assert externals() == {}

    def test_name_of_an_own_authority(self, upload, externals, alpha):
        own = x509.load_der_x509_certificate(alpha.authorities.issuing.certificate_der)
        fake = certified(own.subject)
        assert refused(upload, certificates_pem([fake])) == [
            "This authority has the name of an authority that Admit created for the tenant."
        ]
        assert externals() == {}

    def test_too_many_authorities_of_one_name(self, upload, externals, monkeypatch):
        monkeypatch.setattr(external_authorities, "MAX_SAME_NAME", 2)
        (message,) = refused(upload, pem(*(authority("Twin", NOW) for _ in range(3))))
        assert "More than 2 authorities have the name /CN=Twin" in message
        assert externals() == {}

    @pytest.mark.parametrize("url", ["ftp://x.example/crl", "file:///etc/passwd", "http://", "http://u:p@x.example/"])
    def test_invalid_crl_address(self, upload, externals, root, url):
        with pytest.raises(InvalidInput, match="Invalid URL"):
            upload(pem(root), crl_url=url)
        assert externals() == {}


class TestRemoval:
    @pytest.fixture
    def remove(self, app_engine, alpha):
        def remove(row: CertificateAuthority) -> set[str]:
            with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
                gone = delete_authority(session, actor=ACTOR, tenant_id=alpha.tenant_id, which=str(row.id))
                return {each.name for each in gone}

        return remove

    def test_removing_a_root_removes_its_intermediates(self, upload, externals, remove, root, issuing, scoped, alpha):
        upload(pem(root, issuing, authority("Below", NOW, by=issuing), authority("Other", NOW)))
        assert remove(externals()["Corp Root"]) == {"Corp Root", "Corp Issuing", "Below"}
        assert set(externals()) == {"Other"}
        with scoped() as session:
            assert session.get_one(Tenant, alpha.tenant_id).trust_generation == 1

    def test_intermediate_stays_until_both_of_its_roots_are_removed(self, upload, externals, remove):
        old = authority("Renewed", NOW)
        new = authority("Renewed", NOW, key=old.key, not_after=NOW + 900 * DAY)
        imported = upload(pem(old, new, authority("Below", NOW, by=old))).authorities
        by_end = sorted((row for row in imported if row.name == "Renewed"), key=lambda row: row.not_after)
        assert externals()["Below"].issuer_id == by_end[1].id
        assert remove(by_end[1]) == {"Renewed"}
        assert externals()["Below"].issuer_id == by_end[0].id
        assert remove(by_end[0]) == {"Renewed", "Below"}

    def test_own_authority_cannot_be_removed(self, remove, alpha):
        with pytest.raises(InvalidInput, match="Admit created"):
            remove(alpha.authorities.issuing)
