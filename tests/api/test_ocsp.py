"""The OCSP responder over HTTP, queried and verified with the `cryptography` package."""

import base64
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.ocsp import (
    OCSPCertStatus,
    OCSPRequestBuilder,
    OCSPResponse,
    OCSPResponseStatus,
    load_der_ocsp_response,
)
from fastapi import FastAPI
from sqlalchemy import Engine, delete, text

from api.public.main import create_app
from nac.certificates.service import (
    record_status_change,
    reinstate_certificate,
    revoke_certificate,
    suspend_certificate,
)
from nac.certificates.status_lookup import StatusLookup
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.settings import Settings
from nac.models import AuthorityIntent, CertificateAuthority, OcspSignerRow
from pki import der
from pki.ocsp import MAX_CERTIFICATES, MAX_REQUEST_BYTES
from tests.api.app_server import serve_app
from tests.factories.certificates import Certified
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.postgres import Database
from tests.statements import counted

_SHA1 = hashes.SHA1()  # noqa: S303 -- what clients name issuers by


def certificate_of(authority: CertificateAuthority) -> x509.Certificate:
    return x509.load_der_x509_certificate(authority.certificate_der)


def question(
    issuer: CertificateAuthority, serial: int, *, nonce: bytes | None = None, algorithm: hashes.HashAlgorithm = _SHA1
) -> bytes:
    digests = []
    for octets in (certificate_of(issuer).subject.public_bytes(), _key_bits(issuer)):
        digest = hashes.Hash(algorithm)
        digest.update(octets)
        digests.append(digest.finalize())
    builder = OCSPRequestBuilder().add_certificate_by_hash(*digests, serial, algorithm)
    if nonce is not None:
        builder = builder.add_extension(x509.OCSPNonce(nonce), critical=False)
    return builder.build().public_bytes(Encoding.DER)


def _key_bits(issuer: CertificateAuthority) -> bytes:
    return certificate_of(issuer).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


class OcspClient:
    """An OCSP client of one authority, at the authority's address."""

    def __init__(self, client: httpx.Client, authority: CertificateAuthority) -> None:
        self._client = client
        self._authority = authority
        self.path = f"/ocsp/{authority.id}"

    def post(self, request: bytes) -> httpx.Response:
        headers = {"Content-Type": "application/ocsp-request"}
        return self._client.post(self.path, content=request, headers=headers)

    def get(self, request: bytes, **headers: str) -> httpx.Response:
        return self._client.get(f"{self.path}/{quote(base64.b64encode(request), safe='')}", headers=headers)

    def __call__(self, serial: int, **details: Any) -> OCSPResponse:
        reply = self.post(question(self._authority, serial, **details))
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "application/ocsp-response"
        return load_der_ocsp_response(reply.content)


def status_of(reply: httpx.Response) -> OCSPResponseStatus:
    return load_der_ocsp_response(reply.content).response_status


def require_signed(answer: OCSPResponse, issuer: CertificateAuthority) -> None:
    """Require a signature by a delegate that the issuer has certified."""
    (signer,) = answer.certificates
    signer.verify_directly_issued_by(certificate_of(issuer))
    assert (
        x509.ExtendedKeyUsageOID.OCSP_SIGNING in signer.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    )
    assert answer.responder_key_hash == x509.SubjectKeyIdentifier.from_public_key(signer.public_key()).digest
    key = signer.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(answer.signature, answer.tbs_response_bytes, ec.ECDSA(hashes.SHA256()))


@pytest.fixture
def asking(client: httpx.Client, alpha: Certified) -> OcspClient:
    return OcspClient(client, alpha.authorities.issuing)


@pytest.fixture
def serial(app_engine: Engine, alpha: Certified) -> int:
    return issue(app_engine, alpha)


def issue(app_engine: Engine, tenant: Certified) -> int:
    with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
        return int.from_bytes(tenant.issue(session).serial)


def act(app_engine: Engine, tenant: Certified, verb: Callable[..., object], serial: int, **more: Any) -> None:
    with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
        verb(session, actor=ACTOR, tenant_id=tenant.tenant_id, serial=f"{serial:x}", **more)


def revoke_authority(app_engine: Engine, tenant: Certified) -> None:
    with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
        row = session.get_one(CertificateAuthority, tenant.authorities.issuing.id)
        row.status, row.revoked_at, row.revocation_reason = "revoked", tenant.now, "cACompromise"
        record_status_change(session, row)


def test_issued_certificate_is_good(asking: OcspClient, alpha: Certified, serial: int) -> None:
    for algorithm, nonce in product((_SHA1, hashes.SHA256()), (None, b"n", b"n" * 32, b"n" * 128)):
        answer = asking(serial, nonce=nonce, algorithm=algorithm)
        assert answer.response_status is OCSPResponseStatus.SUCCESSFUL
        assert answer.certificate_status is OCSPCertStatus.GOOD
        assert (answer.serial_number, answer.hash_algorithm.name) == (serial, algorithm.name)
        require_signed(answer, alpha.authorities.issuing)
        echoed = [extension.value.nonce for extension in answer.extensions]  # type: ignore[attr-defined]
        assert echoed == ([] if nonce is None else [nonce])
        assert answer.next_update_utc is not None
        assert answer.next_update_utc - answer.this_update_utc == timedelta(hours=1)
        assert abs(answer.this_update_utc - utc_now()) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("reason", "told"),
    [({"reason": "keyCompromise"}, x509.ReasonFlags.key_compromise), ({}, None)],
    ids=["key", "none"],
)
def test_revoked_certificate_has_time_and_reason(
    app_engine: Engine, asking: OcspClient, alpha: Certified, serial: int, reason: dict[str, str], told: object
) -> None:
    assert asking(serial).certificate_status is OCSPCertStatus.GOOD
    act(app_engine, alpha, revoke_certificate, serial, now=alpha.now, **reason)
    until(lambda: asking(serial).certificate_status is OCSPCertStatus.REVOKED, "the revocation shows")
    answer = asking(serial, nonce=b"n" * 16)
    assert (answer.certificate_status, answer.revocation_reason) == (OCSPCertStatus.REVOKED, told)
    assert answer.revocation_time_utc == alpha.now.replace(microsecond=0)


def test_suspended_certificate_is_on_hold_until_reinstated(
    app_engine: Engine, asking: OcspClient, alpha: Certified, serial: int
):
    act(app_engine, alpha, suspend_certificate, serial, now=alpha.now)
    answer = asking(serial)
    assert answer.certificate_status is OCSPCertStatus.REVOKED
    assert answer.revocation_reason is x509.ReasonFlags.certificate_hold
    act(app_engine, alpha, reinstate_certificate, serial)
    until(lambda: asking(serial).certificate_status is OCSPCertStatus.GOOD, "it is good again")


def test_unissued_serials_are_unknown(
    client: httpx.Client, app_engine: Engine, asking: OcspClient, alpha: Certified, bravo: Certified, serial: int
) -> None:
    """A serial that nobody has, one that is only reserved, and those of a sibling and of another tenant."""
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        reserved = int.from_bytes(alpha.reserve(session).serial)
    foreign = issue(app_engine, bravo)
    act(app_engine, bravo, revoke_certificate, foreign, now=bravo.now)
    root = OcspClient(client, alpha.authorities.root)
    for client_, number in (
        (asking, 0x1234567890),
        (asking, reserved),
        (asking, foreign),
        (root, foreign),
        (root, serial),
    ):
        for nonce in (None, b"n" * 32):
            answer = client_(number, nonce=nonce)
            assert answer.response_status is OCSPResponseStatus.SUCCESSFUL
            assert answer.certificate_status is OCSPCertStatus.UNKNOWN
    require_signed(asking(0x1234567890), alpha.authorities.issuing)


def test_root_answers_for_the_issuing_authority(app_engine: Engine, client: httpx.Client, alpha: Certified):
    root, issuing = alpha.authorities.root, alpha.authorities.issuing
    asking = OcspClient(client, root)
    answer = asking(certificate_of(issuing).serial_number)
    assert answer.certificate_status is OCSPCertStatus.GOOD
    require_signed(answer, root)
    revoke_authority(app_engine, alpha)
    until(
        lambda: asking(certificate_of(issuing).serial_number).revocation_reason is x509.ReasonFlags.ca_compromise,
        "the root says so",
    )


def test_old_root_answers_for_the_cross_certified_root(app_engine: Engine, client: httpx.Client, alpha: Certified):
    root = alpha.authorities.root
    signed, reserved = 0x7788, 0x7799
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        for serial, moment in ((signed, alpha.now), (reserved, None)):
            intent = {"tenant_id": alpha.tenant_id, "kind": "cross", "subject": "x", "key_store": "sealed"}
            octets = serial.to_bytes(2)
            session.add(AuthorityIntent(id=uuid4(), serial=octets, issuer_id=root.id, signed_at=moment, **intent))
    asking = OcspClient(client, root)
    assert asking(signed).certificate_status is OCSPCertStatus.GOOD
    assert asking(reserved).certificate_status is OCSPCertStatus.UNKNOWN


def test_certificates_of_a_revoked_authority_are_not_good(
    app_engine: Engine, asking: OcspClient, alpha: Certified, serial: int
):
    assert asking(serial).certificate_status is OCSPCertStatus.GOOD
    revoke_authority(app_engine, alpha)
    until(lambda: asking(serial).certificate_status is OCSPCertStatus.REVOKED, "it is revoked too")


def test_retired_authority_still_answers(app_engine: Engine, asking: OcspClient, alpha: Certified, serial: int):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        session.get_one(CertificateAuthority, alpha.authorities.issuing.id).status = "retired"
    assert asking(serial).certificate_status is OCSPCertStatus.GOOD


def test_request_for_another_issuer_is_unauthorized(
    client: httpx.Client, app_engine: Engine, alpha: Certified, bravo: Certified
):
    """This holds also when the correct issuer's response is cached, with and without a nonce."""
    own, foreign = issue(app_engine, alpha), issue(app_engine, bravo)
    asking = OcspClient(client, alpha.authorities.issuing)
    for serial in (own, foreign):
        asking(own)
        for nonce in (None, b"n" * 8):
            reply = asking.post(question(bravo.authorities.issuing, serial, nonce=nonce))
            assert status_of(reply) is OCSPResponseStatus.UNAUTHORIZED
            assert reply.headers["cache-control"] == "no-store"


def test_unknown_authority_is_unauthorized(client: httpx.Client, alpha: Certified, serial: int):
    reply = client.post(f"/ocsp/{uuid4()}", content=question(alpha.authorities.issuing, serial))
    assert status_of(reply) is OCSPResponseStatus.UNAUTHORIZED


def test_authority_without_a_signer_returns_try_later(
    app_engine: Engine, asking: OcspClient, alpha: Certified, serial: int
):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        session.execute(delete(OcspSignerRow))
    assert asking(serial).response_status is OCSPResponseStatus.TRY_LATER


def _several(*requests: bytes) -> bytes:
    """Combine several requests into one."""
    singles = b""
    for request in requests:
        outer = next(der.iter_children(request)).content
        tbs = next(der.iter_children(outer)).content
        singles += next(der.iter_children(tbs)).content
    return der.sequence(der.sequence(der.encode(der.SEQUENCE, singles)))


def test_several_certificates_are_answered_in_order(
    app_engine: Engine, asking: OcspClient, alpha: Certified, serial: int
):
    bad = issue(app_engine, alpha)
    act(app_engine, alpha, revoke_certificate, bad, now=alpha.now)
    issuing = alpha.authorities.issuing
    request = _several(*(question(issuing, number) for number in (bad, 77, serial)))
    for _ in range(2):
        answer = load_der_ocsp_response(asking.post(request).content)
        found = [(single.serial_number, single.certificate_status) for single in answer.responses]
        status = OCSPCertStatus
        assert found == [(bad, status.REVOKED), (77, status.UNKNOWN), (serial, status.GOOD)]


def test_one_foreign_certificate_makes_all_unauthorized(
    asking: OcspClient, alpha: Certified, bravo: Certified, serial: int
):
    request = _several(question(alpha.authorities.issuing, serial), question(bravo.authorities.issuing, serial))
    answer = load_der_ocsp_response(asking.post(request).content)
    assert answer.response_status is OCSPResponseStatus.UNAUTHORIZED


def test_invalid_request_is_malformed(asking: OcspClient, alpha: Certified, serial: int) -> None:
    asking(serial)
    for request in (b"", b"0", b"\x30\x00", b"not DER at all", bytes(MAX_REQUEST_BYTES)):
        for reply in (asking.post(request), asking.get(request)):
            assert status_of(reply) is OCSPResponseStatus.MALFORMED_REQUEST
            assert reply.headers["cache-control"] == "no-store"
    for octets in (0, 129):
        reply = asking.post(question(alpha.authorities.issuing, serial, nonce=bytes(octets)))
        assert status_of(reply) is OCSPResponseStatus.MALFORMED_REQUEST


def test_too_many_certificates_are_malformed(asking: OcspClient, alpha: Certified, serial: int):
    one = question(alpha.authorities.issuing, serial)
    for count, status in ((MAX_CERTIFICATES, "SUCCESSFUL"), (MAX_CERTIFICATES + 1, "MALFORMED_REQUEST")):
        answer = load_der_ocsp_response(asking.post(_several(*[one] * count)).content)
        assert answer.response_status.name == status


def test_oversized_body_is_not_read(asking: OcspClient, client: httpx.Client):
    reply = asking.post(bytes(MAX_REQUEST_BYTES + 1))
    assert (reply.status_code, reply.headers["connection"]) == (413, "close")
    assert status_of(reply) is OCSPResponseStatus.MALFORMED_REQUEST
    chunked = client.post(asking.path, content=iter([bytes(1000)] * 8))
    assert (chunked.status_code, chunked.headers["connection"]) == (413, "close")


def test_get_response_is_cacheable_with_etag(asking: OcspClient, alpha: Certified, serial: int):
    reply = asking.get(question(alpha.authorities.issuing, serial))
    assert load_der_ocsp_response(reply.content).certificate_status is OCSPCertStatus.GOOD
    assert reply.headers["cache-control"] == "max-age=300, public, no-transform, must-revalidate"
    assert reply.headers["expires"] > ""
    again = asking.get(question(alpha.authorities.issuing, serial), **{"If-None-Match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = asking._client.head(str(reply.request.url))
    assert (head.headers["content-length"], head.content) == (str(len(reply.content)), b"")


def test_get_accepts_all_base64_spellings(asking: OcspClient, client: httpx.Client, alpha: Certified) -> None:
    """Slashes and pluses may be raw or quoted, with and without padding."""
    chosen = random.Random(1)
    requests = [question(alpha.authorities.issuing, chosen.getrandbits(120)) for _ in range(40)]
    paths = [base64.b64encode(request).decode() for request in requests]
    assert all(any(sign in path for path in paths) for sign in "/+")
    for path in paths:
        for written in (path, path.rstrip("=")):
            for spelling in (written, quote(written, safe="")):
                assert status_of(client.get(f"{asking.path}/{spelling}")) is OCSPResponseStatus.SUCCESSFUL


def test_nonce_and_unknown_responses_are_not_cacheable(asking: OcspClient, alpha: Certified, serial: int) -> None:
    for number, nonce in ((4711, None), (serial, b"n" * 32)):
        reply = asking.get(question(alpha.authorities.issuing, number, nonce=nonce))
        assert reply.headers["cache-control"] == "no-store"
        assert "etag" not in reply.headers


def test_cached_responses_need_no_database(
    public_app: FastAPI, monkeypatch: pytest.MonkeyPatch, asking: OcspClient, serial: int
) -> None:
    until(lambda: asking(serial).signature == asking(serial).signature, "the answer is kept")
    assert asking(serial, nonce=b"a").signature != asking(serial, nonce=b"a").signature

    def fail(*_: object) -> None:
        raise AssertionError("the database was asked")

    monkeypatch.setattr(StatusLookup, "read", fail)
    with counted(public_app.state.engine) as statements:
        for number in range(20):
            for nonce in (None, bytes((number,))):
                assert asking(serial, nonce=nonce).certificate_status is OCSPCertStatus.GOOD
        assert statements == []
    assert asking(4711).response_status is OCSPResponseStatus.INTERNAL_ERROR


def test_lost_change_feed_hides_no_revocation(
    app_engine: Engine, database: Database, asking: OcspClient, alpha: Certified, serial: int
):
    until(lambda: asking(serial).signature == asking(serial).signature, "the answer is kept")
    with psycopg.connect(database.superuser_url, autocommit=True) as superuser:
        ended = superuser.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name IN ('admit-status', 'admit-ocsp')"
        ).fetchall()
    assert len(ended) >= 2
    act(app_engine, alpha, revoke_certificate, serial, now=alpha.now)
    until(lambda: asking(serial).certificate_status is OCSPCertStatus.REVOKED, "the revocation shows")
    good = issue(app_engine, alpha)
    until(lambda: asking(good).signature == asking(good).signature, "answers are kept again")


def test_database_outage_returns_try_later(public_settings: Settings, tmp_path: Path, alpha: Certified, serial: int):
    nowhere = replace(public_settings, database_url=f"postgresql://admit_app@/admit?host={tmp_path}")
    with serve_app(create_app(nowhere)) as client:
        assert OcspClient(client, alpha.authorities.issuing)(serial).response_status is OCSPResponseStatus.TRY_LATER


def test_concurrent_requests_get_their_own_responses(
    app_engine: Engine, client: httpx.Client, asking: OcspClient, alpha: Certified
):
    serials = [issue(app_engine, alpha) for _ in range(12)]
    for serial in serials[::2]:
        act(app_engine, alpha, revoke_certificate, serial, now=alpha.now)
    wrong: list[int] = []

    def ask(serial: int, bad: bool) -> None:
        for number in range(10):
            answer = asking(serial, nonce=bytes((number + 1,)) if number % 2 else None)
            if (answer.certificate_status is OCSPCertStatus.REVOKED) is not bad or answer.serial_number != serial:
                wrong.append(serial)

    with ThreadPoolExecutor(len(serials)) as threads:
        list(threads.map(ask, serials, [at % 2 == 0 for at in range(len(serials))]))
    assert wrong == []


def test_missing_authority_404_and_other_methods_405(client: httpx.Client, asking: OcspClient) -> None:
    for path in ("/ocsp/alpha", f"{asking.path}{'-' * 60_000}"):
        assert client.post(path, content=b"").status_code == 404
    reply = client.put(asking.path, content=b"")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD, POST")


def test_signing_key_of_another_row_is_rejected(
    owner_engine: Engine, asking: OcspClient, alpha: Certified, serial: int
):
    """The test copies a sealed key to another authority's row, where it does not open."""
    with owner_engine.begin() as connection:
        connection.execute(
            text("UPDATE ocsp_signers s SET key_sealed = o.key_sealed FROM ocsp_signers o WHERE o.id <> s.id")
        )
    assert asking(serial).response_status in (OCSPResponseStatus.TRY_LATER, OCSPResponseStatus.INTERNAL_ERROR)
