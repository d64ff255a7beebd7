"""`./admit ca`: the tenant's own authorities, and external authorities whose status the worker fetches."""

import asyncio
import json
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import Engine, select

from cli.commands import _ca_refresh
from nac.certificates import external_status
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.outbound.http_client import HttpClient, OutboundTransport
from nac.kit.outbound.reach import OutboundReach
from nac.models import ExternalCertificate, StatusSource, Tenant
from pki.issuance import Issuer
from tests.certificates.publisher import Publisher, publishing
from tests.certificates.test_external_status import make_crl, serial_of
from tests.certificates.uploads import authority, pem
from tests.cli.conftest import Admit
from tests.pki.openssl import openssl

OF = ("-t", "alpha")
NOW = utc_now().replace(microsecond=0)


def test_authorities_are_listed_shown_and_exported(alpha: Admit, tmp_path: Path) -> None:
    listed = {row["kind"]: row["id"] for row in alpha.json("ca", "list", *OF)}
    root = alpha.json("ca", "show", *OF)
    assert root["id"] == listed["root"]
    assert alpha.json("ca", "show", listed["issuing"], *OF)["kind"] == "issuing"
    exported = alpha.run("ca", "export", *OF).stdout
    alpha.json("ca", "export", "issuing", *OF, "--out", str(tmp_path / "issuing.pem"))
    (tmp_path / "root.pem").write_text(exported)
    checked = openssl("verify", "-CAfile", str(tmp_path / "root.pem"), str(tmp_path / "issuing.pem"))
    assert checked.returncode == 0, checked.stderr
    fingerprint = openssl("x509", "-noout", "-fingerprint", "-sha256", data=exported.encode()).stdout.decode()
    assert fingerprint.strip().partition("=")[2].lower() == root["sha256"]
    assert json.loads(alpha.run("ca", "export", *OF, "--json").stdout)["pem"] == exported


@pytest.mark.parametrize(("answer", "complaint"), [("", "confirmation required"), ("n\n", "Cancelled")])
def test_revoking_an_authority_needs_confirmation(alpha: Admit, answer: str, complaint: str) -> None:
    refused = alpha.run("ca", "revoke", "issuing", *OF, "--json", text=answer)
    assert (refused.exit_code, json.loads(refused.stdout)["error"]) == (1, "refused")
    assert "This cannot be undone: Revoke an authority permanently" in refused.stderr
    assert complaint in refused.stderr
    assert alpha.json("ca", "show", "issuing", *OF)["status"] == "active"
    assert alpha.run("ca", "revoke", str(UUID(int=0)), *OF, "--yes").exit_code == 2
    assert alpha.run("ca", "revoke", "issuing", *OF, "--yes").exit_code == 0


def test_offline_root_key_returns_to_sign(alpha: Admit, tmp_path: Path) -> None:
    passphrase, short, out = tmp_path / "passphrase", tmp_path / "short", tmp_path / "root.key"
    passphrase.write_text("correct horse battery staple\n")
    short.write_text("correct horse\n")
    export = ("ca", "export-root-key", *OF, "--out", str(out), "--forget", "--passphrase-file")
    assert "at least 16 characters" in alpha.run(*export, str(short)).output
    assert not out.exists()
    assert alpha.json(*export, str(passphrase))["signs_here"] is False
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    checked = openssl("pkey", "-in", str(out), "-passin", f"file:{passphrase}", "-noout", "-check")
    assert checked.returncode == 0, checked.stderr
    bring = ("ca", "import-root-key", *OF, "--passphrase-file")
    short.write_text("wrong horse battery staple\n")
    assert "passphrase is wrong" in alpha.run(*bring, str(short), str(out)).output
    stranger = tmp_path / "stranger.key"
    kind = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes256"]
    made = openssl("genpkey", *kind, "-pass", f"file:{passphrase}", "-out", str(stranger))
    assert made.returncode == 0, made.stderr
    foreign = alpha.run(*bring, str(passphrase), str(stranger))
    assert "not contain the key of alpha Root CA" in foreign.output
    assert alpha.json(*bring, str(passphrase), str(out))["signs_here"] is True


def test_every_upload_error_is_listed(alpha: Admit, tmp_path: Path) -> None:
    issuing, own, nothing = (tmp_path / name for name in ("issuing.pem", "own.pem", "nothing"))
    issuing.write_bytes(pem(authority("Corp Issuing", NOW, by=authority("Corp Root", NOW))))
    alpha.run("ca", "export", "issuing", *OF, "--out", str(own))
    nothing.write_text("nothing")
    done = alpha.run("ca", "import", *OF, *map(str, (issuing, own, nothing)), "--json")
    assert done.exit_code == 2
    places = [mistake["place"].partition(",")[0] for mistake in json.loads(done.stdout)["mistakes"]]
    assert places == ["nothing", "issuing.pem", "own.pem", "own.pem"]
    assert len(alpha.json("ca", "list", *OF)) == 2


@pytest.fixture(scope="module")
def corporate() -> Issuer:
    return authority("Corp CA", NOW)


@pytest.fixture
def publisher(tmp_path: Path, corporate: Issuer) -> Iterator[Publisher]:
    with publishing(tmp_path, corporate) as publisher:
        yield publisher


@pytest.fixture
def tenant_id(alpha: Admit, owner_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> TenantId:
    monkeypatch.setattr(_ca_refresh, "_PAUSE_SECONDS", 0.05)
    with session_scope(PlatformScope(), engine=owner_engine) as session:
        return session.scalars(select(Tenant.id)).one()


@contextmanager
def refreshing(worker_engine: Engine, tenant_id: TenantId) -> Iterator[None]:
    """A worker that continuously fetches the statuses of the tenant's authorities."""
    ending = threading.Event()

    async def refresh() -> None:
        reach = OutboundReach.parse("127.0.0.0/8")
        async with OutboundTransport(reach, tls=ssl.create_default_context(), connections=4) as transport:
            client = HttpClient(transport)
            await external_status.refresh_tenant_status(tenant_id, client, now=utc_now(), engine=worker_engine)

    def run() -> None:
        while not ending.wait(0.05):
            asyncio.run(refresh())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def import_authority(alpha: Admit, folder: Path, corporate: Issuer, *more: str) -> str:
    file = folder / "corp.pem"
    file.write_bytes(pem(corporate))
    (row,) = alpha.json("ca", "import", *OF, str(file), *more)
    return str(row["id"])


def test_crl_is_fetched_now_and_its_age_or_error_is_shown(
    alpha: Admit, tenant_id: TenantId, worker_engine: Engine, publisher: Publisher, corporate: Issuer, tmp_path: Path
) -> None:
    publisher.pages["/crl"] = (200, make_crl(by=corporate, serials=(b"\1",)))
    imported = import_authority(alpha, tmp_path, corporate, "--crl-url", publisher.url("/crl"))
    with refreshing(worker_engine, tenant_id):
        for _ in range(2):
            asked = len(publisher.asked)
            (row,) = alpha.json("ca", "refresh", *OF)
            assert len(publisher.asked) > asked
            assert (row["id"], row["queries"], row["crl_failure"]) == (imported, ["crl"], "")
            assert row["revocations"].endswith("hours old")
            assert row["crl_checked_at"] > row["crl_this_update"]
        publisher.pages["/crl"] = (503, b"")
        failed = alpha.run("ca", "refresh", imported, *OF, "--json")
    (row,) = json.loads(failed.stdout)
    assert (failed.exit_code, "status 503" in row["crl_failure"]) == (1, True)


def test_seen_certificates_are_checked_by_ocsp(
    alpha: Admit,
    tenant_id: TenantId,
    owner_engine: Engine,
    worker_engine: Engine,
    publisher: Publisher,
    corporate: Issuer,
    tmp_path: Path,
) -> None:
    imported = import_authority(alpha, tmp_path, corporate, "--ocsp-url", publisher.url("/ocsp"))
    leaf = authority("laptop", NOW, by=corporate, ca=False)
    publisher.index((leaf.certificate, "V"))
    with session_scope(PlatformScope(), engine=owner_engine) as session:
        moments = {"not_after": NOW + timedelta(days=90), "first_seen_at": NOW, "last_seen_at": NOW}
        key = {"tenant_id": tenant_id, "authority_id": imported, "serial": serial_of(leaf)}
        session.add(ExternalCertificate(**key, **moments))
    with refreshing(worker_engine, tenant_id):
        (row,) = alpha.json("ca", "refresh", *OF)
    assert (row["queries"], row["ocsp_certificates"], row["ocsp_failures"]) == (["ocsp"], 1, 0)
    assert row["ocsp_checked_at"]


def test_impossible_refresh_is_reported(
    alpha: Admit, corporate: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert alpha.json("ca", "refresh", *OF) == []
    own = alpha.run("ca", "refresh", "issuing", *OF)
    assert (own.exit_code, "Admit created this authority" in own.stderr) == (2, True)
    imported = import_authority(alpha, tmp_path, corporate)
    nowhere = alpha.run("ca", "refresh", *OF, "--json")
    assert (nowhere.exit_code, json.loads(nowhere.stdout)[0]["queries"]) == (1, [])
    alpha.json("ca", "set", imported, *OF, "--crl-url", "http://crl.example/")
    monkeypatch.setattr(_ca_refresh, "_ANSWERED_SECONDS", 0)
    # No worker runs here.
    late = alpha.run("ca", "refresh", *OF)
    assert late.exit_code != 0
    assert "The worker did not fetch all statuses within 0 s. The worker continues." in late.stderr


@pytest.mark.parametrize(
    ("hours_old", "hours_left", "failure", "told"),
    [
        (None, None, "", "no list"),
        (None, None, "no answer", "no list, failed"),
        (5, 2, "", "5 hours old"),
        (5, 2, "no answer", "5 hours old, failed"),
        (72, -1, "no answer", "3 days old, overdue, failed"),
    ],
)
def test_list_shows_the_crl_age_and_fetch_errors(
    hours_old: int | None, hours_left: int | None, failure: str, told: str
) -> None:
    source = StatusSource(crl_failure=failure)
    if hours_old is not None and hours_left is not None:
        source.crl_this_update = utc_now() - timedelta(hours=hours_old)
        source.crl_next_update = utc_now() + timedelta(hours=hours_left)
    assert _ca_refresh.freshness(source) == told
