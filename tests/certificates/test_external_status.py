"""CRLs and OCSP responses of external authorities, fetched from a real server by the production client."""

import asyncio
import ssl
from datetime import timedelta
from functools import partial

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import select

from nac.certificates import external_status
from nac.certificates.external_authorities import import_authorities
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.outbound.http_client import HttpClient, OutboundTransport
from nac.kit.outbound.reach import OutboundReach
from nac.models import CoaRequest, ExternalCertificate, ExternalStatus, StatusSource
from tests.certificates.publisher import publishing
from tests.certificates.uploads import authority, pem
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR
from tests.pki import crls

NOW = utc_now().replace(microsecond=0)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
make_crl = partial(crls.make_crl, begin=NOW - HOUR, end=NOW + DAY)
LOOPBACK = "127.0.0.0/8"


@pytest.fixture(scope="module")
def corporate():
    return authority("Corp CA", NOW)


@pytest.fixture
def publisher(tmp_path, corporate):
    with publishing(tmp_path, corporate) as publisher:
        yield publisher


@pytest.fixture
def trust(scoped, alpha, corporate):
    def trust(**urls):
        with scoped() as session:
            found = import_authorities(
                session, actor=ACTOR, tenant_id=alpha.tenant_id, files=[("ca", pem(corporate))], now=NOW, **urls
            )
        return found.authorities[0].id

    return trust


@pytest.fixture
def presented(owner_engine, alpha):
    """Store a certificate that a device presented, as the shipper does."""

    def presented(authority_id, leaf, *, crl_urls=(), ocsp_urls=()):
        serial = serial_of(leaf)
        row = {"authority_id": authority_id, "serial": serial, "not_after": NOW + 90 * DAY}
        row |= {"crl_urls": list(crl_urls), "ocsp_urls": list(ocsp_urls)}
        with session_scope(PlatformScope(), engine=owner_engine) as session:
            make_row(session, ExternalCertificate.__table__, alpha.tenant_id, **row)
        return serial

    return presented


def serial_of(leaf):
    number = leaf.certificate.serial_number
    return number.to_bytes((number.bit_length() + 7) // 8)


@pytest.fixture
def refresh(worker_engine, alpha):
    def refresh(*, at=None, reach=LOOPBACK):
        async def run():
            async with OutboundTransport(
                OutboundReach.parse(reach), tls=ssl.create_default_context(), connections=4
            ) as transport:
                web = HttpClient(transport)
                await external_status.refresh_tenant_status(
                    alpha.tenant_id, web, now=at or utc_now(), engine=worker_engine
                )

        asyncio.run(run())

    return refresh


@pytest.fixture
def state(scoped):
    def state():
        with scoped() as session:
            source = session.scalars(select(StatusSource)).one()
            rows = session.scalars(select(ExternalStatus).order_by(ExternalStatus.serial)).all()
            return source, {row.serial: (row.listed, row.answer) for row in rows}

    return state


def later(hours=2):
    return NOW + hours * HOUR


class TestLists:
    def test_crl_is_fetched_from_the_configured_address(self, trust, publisher, refresh, state, corporate):
        publisher.pages["/crl"] = (200, make_crl(by=corporate, serials=(b"\1", b"\2")))
        trust(crl_url=publisher.url("/crl"))
        refresh()
        source, statuses = state()
        assert statuses == {b"\1": (True, ""), b"\2": (True, "")}
        assert (source.crl_number, source.crl_next_update, source.crl_failure) == (7, NOW + DAY, "")
        assert source.crl_checked_at is not None
        # Before the CRL is due, the worker does not fetch it.
        refresh(at=utc_now() + timedelta(minutes=1))
        assert publisher.asked == ["GET /crl"]

    def test_crl_is_fetched_from_the_distribution_point(self, trust, publisher, refresh, state, corporate, presented):
        publisher.pages["/crl"] = (200, make_crl(by=corporate, serials=(b"\1",), encoding=Encoding.PEM))
        authority_id = trust()
        refresh()
        assert publisher.asked == []
        presented(authority_id, authority("laptop", NOW, by=corporate, ca=False), crl_urls=[publisher.url("/crl")])
        refresh()
        assert state()[1] == {b"\1": (True, "")}

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"begin": NOW - 2 * HOUR}, "older than the stored list"),
            ({"begin": NOW, "number": 6}, "lower than the stored list"),
        ],
    )
    def test_older_crl_does_not_undo_a_revocation(self, trust, publisher, refresh, state, corporate, changes, says):
        publisher.pages["/crl"] = (200, make_crl(by=corporate, serials=(b"\1",)))
        trust(crl_url=publisher.url("/crl"))
        refresh()
        number = changes.pop("number", 7)
        publisher.pages["/crl"] = (200, make_crl((x509.CRLNumber(number), False), by=corporate, serials=(), **changes))
        refresh(at=later())
        source, statuses = state()
        assert statuses == {b"\1": (True, "")}
        assert says in source.crl_failure
        assert source.crl_next_update == NOW + DAY

    @pytest.mark.parametrize(
        ("page", "says"),
        [
            (None, "status 404"),
            ((200, b"<html>"), "Invalid certificate revocation list"),
            ((200, make_crl(by=authority("Corp CA", NOW))), "not signed by the authority"),
            ("http://127.0.0.1:1/", "connection attempts failed"),
            ("/crl", "more than 3 redirects"),
        ],
    )
    def test_failed_fetch_raises_an_alarm_and_is_retried_soon(self, trust, publisher, refresh, state, page, says):
        if page is not None:
            publisher.pages["/crl"] = page
        trust(crl_url=publisher.url("/crl"))
        refresh()
        source, statuses = state()
        assert statuses == {}
        assert says in source.crl_failure
        assert source.crl_due_at - source.crl_checked_at == timedelta(minutes=5)

    def test_redirect_target_is_checked_before_it_is_followed(self, trust, publisher, refresh, state, corporate):
        publisher.pages["/crl"] = "/moved"
        publisher.pages["/moved"] = (200, make_crl(by=corporate))
        trust(crl_url=publisher.url("/crl"))
        refresh()
        assert state()[0].crl_failure == ""

    def test_forbidden_address_is_not_contacted(self, trust, publisher, refresh, state):
        trust(crl_url=publisher.url("/crl"))
        refresh(reach="")
        assert "loopback address" in state()[0].crl_failure
        assert publisher.asked == []


class TestOcsp:
    @pytest.fixture
    def laptop(self, corporate):
        return authority("laptop", NOW, by=corporate, ca=False)

    def test_openssl_responses_are_accepted(self, trust, publisher, refresh, state, presented, laptop, corporate):
        other = authority("other", NOW, by=corporate, ca=False)
        publisher.index((laptop.certificate, "V"), (other.certificate, "R"))
        authority_id = trust()
        good, revoked = (presented(authority_id, each, ocsp_urls=[publisher.url("/ocsp")]) for each in (laptop, other))
        # openssl uses the current time in its response.
        refresh()
        assert state()[1] == {good: (False, "good"), revoked: (False, "revoked")}
        refresh()
        assert publisher.asked == ["POST /ocsp"] * 2

    def test_unknown_certificate_is_reported_as_unknown(
        self, trust, publisher, refresh, state, presented, laptop, scoped
    ):
        publisher.index()
        serial = presented(trust(ocsp_url=publisher.url("/ocsp")), laptop)
        refresh()
        assert state()[1] == {}
        with scoped() as session:
            row = session.scalars(select(ExternalCertificate)).one()
            assert (row.serial, row.ocsp_failure) == (
                serial,
                f"{publisher.url('/ocsp')}: The responder does not know the certificate.",
            )

    def test_ocsp_is_not_queried_while_a_crl_is_valid(self, trust, publisher, refresh, presented, laptop, corporate):
        publisher.pages["/crl"] = (200, make_crl(by=corporate))
        presented(trust(crl_url=publisher.url("/crl")), laptop, ocsp_urls=[publisher.url("/ocsp")])
        refresh()
        assert publisher.asked == ["GET /crl"]

    def test_revocation_stays_when_the_crl_drops_it(
        self, trust, publisher, refresh, state, presented, laptop, corporate
    ):
        publisher.index((laptop.certificate, "R"))
        authority_id = trust(ocsp_url=publisher.url("/ocsp"))
        serial = presented(authority_id, laptop)
        refresh()
        trust(crl_url=publisher.url("/crl"))
        publisher.pages["/crl"] = (200, make_crl(by=corporate, serials=(serial,)))
        refresh()
        assert state()[1] == {serial: (True, "revoked")}
        publisher.pages["/crl"] = (200, make_crl(by=corporate, begin=NOW, serials=()))
        refresh(at=later())
        assert state()[1] == {serial: (False, "revoked")}


def test_clock_jump_does_not_delay_queries(trust, publisher, refresh, state, presented, corporate):
    leaf = authority("laptop", NOW, by=corporate, ca=False)
    publisher.index((leaf.certificate, "R"))
    serial = presented(trust(crl_url=publisher.url("/crl"), ocsp_url=publisher.url("/ocsp")), leaf)
    refresh(at=NOW + 20 * DAY)
    assert state()[1] == {}
    refresh()
    assert state()[1] == {serial: (False, "revoked")}
    assert publisher.asked == ["GET /crl", "POST /ocsp"] * 2


def test_newly_revoked_certificate_disconnects_its_sessions(
    trust, publisher, refresh, presented, corporate, scoped, lives
):
    leaf = authority("laptop", NOW, by=corporate, ca=False)
    serial = presented(trust(crl_url=publisher.url("/crl")), leaf)
    live = lives(serial.hex())
    publisher.pages["/crl"] = (200, make_crl(by=corporate, serials=(serial, b"\1")))
    refresh()
    with scoped() as session:
        assert [(row.session_id, row.reason) for row in session.scalars(select(CoaRequest))] == [
            (live, "certificate-revoked")
        ]


def test_unused_certificates_are_deleted(trust, publisher, refresh, presented, corporate, scoped, monkeypatch):
    authority_id = trust()
    for number in range(3):
        presented(authority_id, authority(f"laptop {number}", NOW, by=corporate, ca=False))
    monkeypatch.setattr(external_status, "MAX_CERTIFICATES", 2)
    refresh()
    with scoped() as session:
        assert len(session.scalars(select(ExternalCertificate)).all()) == 2
    refresh(at=NOW + 91 * DAY)
    with scoped() as session:
        assert session.scalars(select(ExternalCertificate)).all() == []
