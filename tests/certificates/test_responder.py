"""The cache of the OCSP responder under concurrent changes and with an interrupted change feed."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.ocsp import OCSPCertStatus, OCSPRequestBuilder, OCSPResponseStatus, load_der_ocsp_response
from sqlalchemy import Engine

from nac.certificates import ocsp_responder, publication
from nac.certificates.ocsp_responder import OcspResponder, OcspResponse
from nac.certificates.service import reinstate_certificate, revoke_certificate, suspend_certificate
from nac.certificates.status_lookup import StatusLookup
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.onboarding import tenant_purge
from nac.tenancy.tenants import service as tenants
from tests.factories.certificates import SEALER, SIGNING, Certified
from tests.factories.tenancy import ACTOR
from tests.polling import until


class Requested:
    """A certificate of alpha, and a responder for its status."""

    def __init__(self, engine: Engine, tenant: Certified) -> None:
        self.engine = engine
        self.tenant = tenant
        self.authority_id = tenant.authorities.issuing.id
        with session_scope(TenantScope(tenant.tenant_id), engine=engine) as session:
            issued = tenant.issue(session)
        self.serial = issued.serial.hex()
        digest = hashes.SHA256()
        builder = OCSPRequestBuilder().add_certificate(issued.certificate, issued.intermediates[0], digest)
        self.plain = builder.build().public_bytes(Encoding.DER)
        nonce = builder.add_extension(x509.OCSPNonce(b"n" * 32), critical=False)
        self.with_nonce = nonce.build().public_bytes(Encoding.DER)
        self.responder = OcspResponder(engine, SEALER)

    def do(self, verb: Any, **more: Any) -> None:
        with session_scope(TenantScope(self.tenant.tenant_id), engine=self.engine) as session:
            verb(session, actor=ACTOR, tenant_id=self.tenant.tenant_id, serial=self.serial, **more)

    def answer(self, request: bytes) -> OCSPCertStatus:
        return self._read(self.responder.answer(self.authority_id, request, now=self.tenant.now))

    def recall(self, request: bytes) -> OCSPCertStatus | None:
        kept = self.responder.recall(self.authority_id, request, now=self.tenant.now)
        return None if kept is None else self._read(kept)

    @staticmethod
    def _read(answer: OcspResponse) -> OCSPCertStatus:
        return load_der_ocsp_response(answer.der).certificate_status


@pytest.fixture
def requested(app_engine: Engine, worker_engine: Engine, alpha: Certified) -> Iterator[Requested]:
    for authority in (alpha.authorities.root, alpha.authorities.issuing):
        with session_scope(TenantScope(alpha.tenant_id), engine=worker_engine) as session:
            where: Any = {"tenant_id": alpha.tenant_id, "authority_id": authority.id}
            publication.publish_status(session, actor="worker", signing=SIGNING, now=alpha.now, **where)
    requested = Requested(app_engine, alpha)
    requested.responder.start()
    until(lambda: requested.answer(requested.plain) and requested.recall(requested.plain), "answers are kept")
    yield requested
    requested.responder.stop()


def test_cached_status_serves_requests_with_and_without_nonce(requested):
    assert requested.recall(requested.plain) is OCSPCertStatus.GOOD
    assert requested.recall(requested.with_nonce) is OCSPCertStatus.GOOD


def test_change_notice_invalidates_the_cache(requested):
    requested.do(revoke_certificate, now=requested.tenant.now)
    until(lambda: requested.recall(requested.plain) is None, "the change is told")
    assert requested.recall(requested.with_nonce) is None
    assert requested.answer(requested.plain) is OCSPCertStatus.REVOKED


def test_purged_tenant_is_removed_from_the_cache(requested):
    with session_scope(PlatformScope(), engine=requested.engine) as session:
        for end in (tenants.delete_tenant, tenant_purge.purge_tenant):
            end(session, actor=ACTOR, tenant_id=requested.tenant.tenant_id)
    until(lambda: requested.recall(requested.plain) is None, "the change is told")
    gone = requested.responder.answer(requested.authority_id, requested.plain, now=requested.tenant.now)
    assert load_der_ocsp_response(gone.der).response_status is OCSPResponseStatus.UNAUTHORIZED


def test_status_read_before_a_change_is_not_cached_after_it(requested, monkeypatch):
    read = StatusLookup.read

    def change_after_read(look_up: StatusLookup, authority_id: Any, serials: Any) -> Any:
        found = read(look_up, authority_id, serials)
        requested.do(suspend_certificate, now=requested.tenant.now)
        until(lambda: requested.recall(requested.plain) is None, "the change is told")
        return found

    monkeypatch.setattr(StatusLookup, "read", change_after_read)
    assert requested.answer(requested.plain) is OCSPCertStatus.GOOD
    monkeypatch.undo()
    assert requested.recall(requested.plain) is None
    assert requested.recall(requested.with_nonce) is None
    assert requested.answer(requested.plain) is OCSPCertStatus.REVOKED


def test_authority_read_before_a_change_is_not_cached_after_it(requested, monkeypatch):
    requested.do(suspend_certificate, now=requested.tenant.now)
    until(lambda: requested.recall(requested.plain) is None, "the change is told")
    read, told = ocsp_responder._read_authority, requested.responder._forgotten

    def change_after_read(*arguments: Any) -> Any:
        found = read(*arguments)
        requested.do(reinstate_certificate)
        until(lambda: requested.responder._forgotten > told, "the change is told")
        return found

    monkeypatch.setattr(ocsp_responder, "_read_authority", change_after_read)
    requested.answer(requested.plain)
    monkeypatch.undo()
    assert requested.recall(requested.plain) is None


def test_cache_is_unused_while_the_change_feed_is_down(requested):
    requested.responder.stop()
    assert requested.recall(requested.plain) is None
    assert requested.answer(requested.plain) is OCSPCertStatus.GOOD
    requested.do(revoke_certificate, now=requested.tenant.now)
    assert requested.answer(requested.with_nonce) is OCSPCertStatus.REVOKED


@pytest.mark.parametrize("hours", [2, -2])
def test_expired_or_future_response_is_not_served_from_cache(requested, hours):
    now = requested.tenant.now + timedelta(hours=hours)
    kept = requested.responder.recall(requested.authority_id, requested.plain, now=now)
    assert kept is not None
    answer = load_der_ocsp_response(kept.der)
    assert answer.this_update_utc <= now < answer.next_update_utc


def test_cache_is_bounded():
    recent = ocsp_responder._LruCache[int, str](2)
    for key in (1, 2, 1, 3):
        recent.put(key, "x")
    assert [recent.get(key) for key in (1, 2, 3)] == ["x", None, "x"]
