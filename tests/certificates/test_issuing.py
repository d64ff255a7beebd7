from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import event, select

from nac.certificates.errors import CertificateNotFound, CertificateRefused, CertificateStatusConflict
from nac.certificates.service import (
    build_pem_files,
    build_pkcs12_file,
    require_by_serial,
    sign_certificate,
)
from nac.inventory.endpoints import service as endpoints
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Conflict
from nac.kit.secrets import RawKey, SealedForAnotherKey, Sealer
from nac.models import AuditEntry, Certificate
from pki.keys import generate_key, is_same_public_key
from pki.names import San, read_sans
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR, make_tenant
from tests.pki.openssl import openssl, verify
from tests.statements import counted

_DAY = timedelta(days=1)


def test_client_certificate_verifies_and_key_is_returned_once(scoped, alpha, tmp_path):
    with scoped() as session:
        issued = alpha.issue(session, sans=[San("dns", "laptop1.alpha.example")])
        row = require_by_serial(session, tenant_id=alpha.tenant_id, serial=issued.serial.hex())
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)).one()
    assert (entry.action, entry.target, entry.tenant_id) == ("certificate.issue", row.serial.hex(), alpha.tenant_id)
    assert entry.after["names"] == ["dns:laptop1.alpha.example"]
    assert set(entry.after) == {"profile", "subject", "names", "not_before", "not_after", "authority"}
    assert (row.status, row.key_sealed, row.profile) == ("valid", None, "eap-client-device")
    certificate = issued.certificate
    assert row.serial == certificate.serial_number.to_bytes(16)
    assert (row.not_before, row.not_after) == (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    files = build_pem_files(issued)
    for kind, content in files.items():
        (tmp_path / kind).write_bytes(content)
    good = verify("sslclient", tmp_path / "ca", tmp_path / "chain", tmp_path / "cert")
    assert good.returncode == 0, good.stderr
    assert openssl("pkey", "-check", "-noout", data=files["key"]).returncode == 0
    assert "PRIVATE" not in repr(issued)
    assert b"laptop 1" in pkcs12_as_pem(build_pkcs12_file(issued, password="correct horse"), tmp_path)


def pkcs12_as_pem(bundle: bytes, folder: Path) -> bytes:
    (folder / "bundle.p12").write_bytes(bundle)
    shown = openssl("pkcs12", "-in", str(folder / "bundle.p12"), "-passin", "pass:correct horse", "-nodes")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count(b"BEGIN CERTIFICATE") == 3
    return shown.stdout


def test_csr_key_is_certified_and_no_key_is_returned(scoped, alpha):
    key = generate_key()
    with scoped() as session:
        issued = alpha.issue(session, public_key=key.public_key(), profile="eap-client-user", common_name="eve")
    assert issued.key is None
    assert is_same_public_key(issued.certificate.public_key(), key.public_key())
    assert "key" not in build_pem_files(issued)
    with pytest.raises(CertificateRefused, match="signing request"):
        build_pkcs12_file(issued, password="correct horse")


def test_reservation_survives_its_transaction_and_signs_once(scoped, alpha):
    with scoped() as session:
        reserved = alpha.reserve(session, common_name="printer", sans=[San("uri", "urn:x:1")])
    with scoped() as session:
        row = require_by_serial(session, tenant_id=alpha.tenant_id, serial=reserved.serial.hex())
        assert (row.status, row.certificate_der) == ("intended", None)
    key = generate_key()
    with scoped() as session:
        row = sign_certificate(
            session, reserved, actor=ACTOR, public_key=key.public_key(), signing=SIGNING, now=alpha.now
        )
        certificate = x509.load_der_x509_certificate(row.certificate_der)
        assert read_sans(certificate) == (San("uri", "urn:x:1"),)
        assert (certificate.not_valid_before_utc, certificate.not_valid_after_utc) == (row.not_before, row.not_after)
    with scoped() as session, pytest.raises(CertificateStatusConflict, match="already signed"):
        sign_certificate(session, reserved, actor=ACTOR, public_key=key.public_key(), signing=SIGNING, now=alpha.now)


def test_wrong_master_key_signs_nothing(app_engine, alpha):
    with (
        pytest.raises(SealedForAnotherKey),
        session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session,
    ):
        alpha.issue(session, signing=replace(SIGNING, sealer=Sealer(RawKey(bytes(32)))))


def test_reservation_that_was_rolled_back_cannot_be_signed(scoped, alpha):
    with scoped() as session:
        reserved = alpha.reserve(session)
        session.rollback()
    with scoped() as session, pytest.raises(CertificateNotFound, match="no record of the unfinished certificate"):
        sign_certificate(
            session, reserved, actor=ACTOR, public_key=generate_key().public_key(), signing=SIGNING, now=alpha.now
        )


def test_rejected_request_leaves_no_row(scoped, alpha):
    refused = [
        {"common_name": "a\nb"},
        {"common_name": ""},
        {"sans": [San("email", "eve@alpha.example")]},
        {"not_before": alpha.now, "not_after": alpha.now - _DAY},
        {"not_after": alpha.now + 4000 * _DAY},
        {"sans": [San("dns", f"host{number}.alpha.example") for number in range(21)]},
        {"public_key": ec.generate_private_key(ec.SECP192R1()).public_key()},
    ]
    for changes in refused:
        with pytest.raises(CertificateRefused), scoped() as session:
            alpha.issue(session, **changes)
    with scoped() as session:
        assert session.scalars(select(Certificate.profile)).all() == ["eap-server"]


def test_tenant_without_authorities_gets_an_error(app_engine, platform, alpha):
    bare = Certified(make_tenant(app_engine, platform, "bare").id, alpha.authorities, alpha.now)
    with (
        session_scope(TenantScope(bare.tenant_id), engine=app_engine) as session,
        pytest.raises(Conflict, match="no active issuing authority"),
    ):
        bare.issue(session)


def test_endpoint_of_another_tenant_is_rejected(scoped, alpha, bravo):
    with scoped(bravo) as session:
        foreign = endpoints.create_endpoint(session, actor=ACTOR, tenant_id=bravo.tenant_id, mac="00:11:22:33:44:55").id
    with scoped() as session:
        own = endpoints.create_endpoint(session, actor=ACTOR, tenant_id=alpha.tenant_id, mac="00:11:22:33:44:55").id
        issued = alpha.issue(session, endpoint_id=own)
        row = require_by_serial(session, tenant_id=alpha.tenant_id, serial=issued.serial.hex())
        assert row.endpoint_id == own
    for endpoint_id in (foreign, uuid4()):
        with pytest.raises(Conflict, match="does not exist"), scoped() as session:
            alpha.issue(session, endpoint_id=endpoint_id)


def test_certificate_takes_ten_statements_in_two_transactions(app_engine, alpha, scoped):
    commits = Mock()
    event.listen(app_engine, "commit", commits)
    with counted(app_engine) as statements, scoped() as session:
        alpha.issue(session, public_key=generate_key().public_key())
    event.remove(app_engine, "commit", commits)
    assert (len(statements), commits.call_count) == (10, 2)
