"""`./admit ca refresh`: the worker fetches, and the command shows the result."""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from cli.commands import _ca_refresh
from nac.certificates import external_status
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.outbound.http_client import HttpClient, OutboundTransport
from nac.kit.outbound.reach import OutboundReach
from nac.models import ExternalCertificate, Tenant
from pki.issuance import Issuer
from tests.certificates.publisher import Publisher, publishing
from tests.certificates.test_external_status import make_crl, serial_of
from tests.certificates.uploads import authority, pem
from tests.cli.conftest import Admit

NOW = utc_now().replace(microsecond=0)


@pytest.fixture(scope="module")
def corporate() -> Issuer:
    return authority("Corp CA", NOW)


@pytest.fixture
def publisher(tmp_path: Path, corporate: Issuer) -> Iterator[Publisher]:
    with publishing(tmp_path, corporate) as publisher:
        yield publisher


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ca_refresh, "_PAUSE_SECONDS", 0.05)


@contextmanager
def turning(worker_engine: Engine, tenant_id: TenantId) -> Iterator[None]:
    """A worker that runs continuously."""
    ending = threading.Event()

    async def turn() -> None:
        reach = OutboundReach.parse("127.0.0.0/8")
        async with OutboundTransport(reach, tls=ssl.create_default_context(), connections=4) as transport:
            await external_status.refresh_tenant_status(
                tenant_id, HttpClient(transport), now=utc_now(), engine=worker_engine
            )

    def run() -> None:
        while not ending.wait(0.05):
            asyncio.run(turn())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@pytest.fixture
def tenant_id(alpha: Admit, owner_engine: Engine) -> TenantId:
    with session_scope(PlatformScope(), engine=owner_engine) as session:
        return session.scalars(select(Tenant.id)).one()


def _import(alpha: Admit, folder: Path, corporate: Issuer, *more: str) -> str:
    file = folder / "corp.pem"
    file.write_bytes(pem(corporate))
    (row,) = alpha.json("ca", "import", "-t", "alpha", str(file), *more)
    return str(row["id"])


def test_crl_is_fetched_now_and_its_age_or_error_is_shown(
    alpha: Admit, tenant_id: TenantId, worker_engine: Engine, publisher: Publisher, corporate: Issuer, tmp_path: Path
) -> None:
    publisher.pages["/crl"] = (200, make_crl(by=corporate, serials=(b"\1",)))
    imported = _import(alpha, tmp_path, corporate, "--crl-url", publisher.url("/crl"))
    with turning(worker_engine, tenant_id):
        for _ in range(2):
            asked = len(publisher.asked)
            (row,) = alpha.json("ca", "refresh", "-t", "alpha")
            assert len(publisher.asked) > asked
            assert (row["id"], row["asked"], row["crl_failure"]) == (imported, ["crl"], "")
            assert row["revocations"].endswith("hours old")
            assert row["crl_checked_at"] > row["crl_this_update"]
        publisher.pages["/crl"] = (503, b"")
        failed = alpha.run("ca", "refresh", imported, "-t", "alpha", "--json")
    assert failed.exit_code == 1
    (row,) = json.loads(failed.stdout)
    assert "status 503" in row["crl_failure"]


def test_seen_certificates_are_checked_by_ocsp(
    alpha: Admit,
    tenant_id: TenantId,
    owner_engine: Engine,
    worker_engine: Engine,
    publisher: Publisher,
    corporate: Issuer,
    tmp_path: Path,
) -> None:
    imported = _import(alpha, tmp_path, corporate, "--ocsp-url", publisher.url("/ocsp"))
    leaf = authority("laptop", NOW, by=corporate, ca=False)
    publisher.index((leaf.certificate, "V"))
    with session_scope(PlatformScope(), engine=owner_engine) as session:
        moments = {"not_after": NOW + timedelta(days=90), "first_seen_at": NOW, "last_seen_at": NOW}
        key = {"tenant_id": tenant_id, "authority_id": imported, "serial": serial_of(leaf)}
        session.add(ExternalCertificate(**key, **moments))
    with turning(worker_engine, tenant_id):
        (row,) = alpha.json("ca", "refresh", "-t", "alpha")
    assert (row["asked"], row["ocsp_certificates"], row["ocsp_failures"]) == (["ocsp"], 1, 0)
    assert row["ocsp_checked_at"]


def test_impossible_refresh_is_reported(
    alpha: Admit, corporate: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert alpha.json("ca", "refresh", "-t", "alpha") == []
    own = alpha.run("ca", "refresh", "issuing", "-t", "alpha")
    assert (own.exit_code, "Admit created this authority" in own.stderr) == (2, True)
    imported = _import(alpha, tmp_path, corporate)
    nowhere = alpha.run("ca", "refresh", "-t", "alpha", "--json")
    assert (nowhere.exit_code, json.loads(nowhere.stdout)[0]["asked"]) == (1, [])
    alpha.json("ca", "set", imported, "-t", "alpha", "--crl-url", "http://crl.example/")
    monkeypatch.setattr(_ca_refresh, "_ANSWERED_SECONDS", 0)
    # No worker runs here.
    late = alpha.run("ca", "refresh", "-t", "alpha")
    assert late.exit_code != 0
    assert "The worker did not fetch all statuses within 0 s. The worker continues." in late.stderr
