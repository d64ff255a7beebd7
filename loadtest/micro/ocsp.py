"""Measures the OCSP responses per second of one core. Usage: python -m loadtest.micro.ocsp [seconds of each run].

The public application runs in one uvicorn process on one core, with TCP keep-alive. The load generator uses the other
cores. The generator checks status and length of every response, and parses a sample.
"""

import asyncio
import base64
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.ocsp import OCSPCertStatus, OCSPRequestBuilder, load_der_ocsp_response

from loadtest.processes import (
    LOOPBACK,
    BenchError,
    ProcessTree,
    cpu_seconds,
    end_process,
    first_of_free_ports,
    resident_bytes,
    start_process,
    wait_until,
)
from nac.certificates.service import revoke_certificate
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, make_engine, session_scope
from tests.api.conftest import publish_all
from tests.factories.certificates import MASTER_KEY, Certified, certify
from tests.factories.tenancy import make_platform, make_tenant
from tests.postgres import Cluster, Database

CERTIFICATES = 200
CONNECTIONS = 32
_SECONDS = 4.0
_WARM_UP_SECONDS = 1.0
_SAMPLE = 500
_REVOCATIONS = 50

RequestFactory = Callable[[], bytes]


class OcspRequests:
    def __init__(self, authority_id: str, issuer: x509.Certificate, issued: list[x509.Certificate]) -> None:
        self.path = f"/ocsp/{authority_id}"
        self._issuer = issuer
        self._issued = issued
        plain = [self._question(certificate) for certificate in issued]
        self._posts = [self._post(question) for question in plain]
        self._gets = [self._get(question) for question in plain]

    def kept_post(self) -> bytes:
        return secrets.choice(self._posts)

    def kept_get(self) -> bytes:
        return secrets.choice(self._gets)

    def bodies(self) -> list[tuple[x509.Certificate, bytes]]:
        return [(certificate, self._question(certificate)) for certificate in self._issued]

    def with_nonce(self) -> bytes:
        return self._post(self._question(secrets.choice(self._issued), x509.OCSPNonce(secrets.token_bytes(32))))

    def not_kept(self) -> bytes:
        """Return requests about unknown serial numbers, for which the responder has no cached response."""
        digest = hashes.SHA1()  # noqa: S303 -- what clients name issuers by
        known = OCSPRequestBuilder().add_certificate(self._issued[0], self._issuer, digest).build()
        builder = OCSPRequestBuilder().add_certificate_by_hash(
            known.issuer_name_hash, known.issuer_key_hash, secrets.randbits(120) + 1, digest
        )
        return self._post(builder.build().public_bytes(Encoding.DER))

    def _question(self, certificate: x509.Certificate, nonce: x509.OCSPNonce | None = None) -> bytes:
        digest = hashes.SHA1()  # noqa: S303 -- what clients name issuers by
        builder = OCSPRequestBuilder().add_certificate(certificate, self._issuer, digest)
        if nonce is not None:
            builder = builder.add_extension(nonce, critical=False)
        return builder.build().public_bytes(Encoding.DER)

    def _post(self, question: bytes) -> bytes:
        head = f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/ocsp-request\r\n"
        return f"{head}Content-Length: {len(question)}\r\n\r\n".encode() + question

    def _get(self, question: bytes) -> bytes:
        return f"GET {self.path}/{quote(base64.b64encode(question), safe='')} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


class OcspTally:
    def __init__(self) -> None:
        self.answered = 0
        self.wrong = 0
        self.seconds: list[float] = []


async def _converse(port: int, ask: RequestFactory, expected: OCSPCertStatus, until: float, tally: OcspTally) -> None:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    while (began := time.perf_counter()) < until:
        writer.write(ask())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        tally.seconds.append(time.perf_counter() - began)
        tally.answered += 1
        good = head.startswith(b"HTTP/1.1 200 ") and length > _SAMPLE
        if good and tally.answered % _SAMPLE == 0:
            good = load_der_ocsp_response(body).certificate_status is expected
        tally.wrong += not good
    writer.close()


async def _load(port: int, ask: RequestFactory, expected: OCSPCertStatus, seconds: float) -> OcspTally:
    tally = OcspTally()
    until = time.perf_counter() + seconds
    await asyncio.gather(*(_converse(port, ask, expected, until, tally) for _ in range(CONNECTIONS)))
    return tally


def measure(name: str, server: subprocess.Popen[bytes], port: int, ask: RequestFactory, seconds: float) -> None:
    expected = OCSPCertStatus.UNKNOWN if name == "not kept" else OCSPCertStatus.GOOD
    asyncio.run(_load(port, ask, expected, _WARM_UP_SECONDS))
    before, began = cpu_seconds(ProcessTree(server.pid)), time.perf_counter()
    tally = asyncio.run(_load(port, ask, expected, seconds))
    took, used = time.perf_counter() - began, cpu_seconds(ProcessTree(server.pid)) - before
    tally.seconds.sort()
    p50, p99 = (tally.seconds[int(len(tally.seconds) * share)] * 1000 for share in (0.5, 0.99))
    print(
        f"{name:12} {tally.answered / took:8,.0f}/s {used / tally.answered * 1e6:8.0f} us of CPU"
        f" {tally.answered / used:8,.0f}/s of a core  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms  wrong {tally.wrong}"
    )


def measure_revocations(database: Database, tenant: Certified, port: int, questions: OcspRequests) -> None:
    """Measure the time from the commit of a revocation to the first response that reports the revocation.

    The responder has cached a response for the certificate before the revocation.
    """
    engine = make_engine(database.app_url)
    took = []
    with httpx.Client(base_url=f"http://{LOOPBACK}:{port}", trust_env=False) as client:

        def is_revoked(body: bytes) -> bool:
            answer = load_der_ocsp_response(client.post(questions.path, content=body).content)
            return answer.certificate_status is OCSPCertStatus.REVOKED

        for certificate, body in questions.bodies()[:_REVOCATIONS]:
            if is_revoked(body) or is_revoked(body):
                raise BenchError("the responder reports a certificate as revoked before the revocation")
            with session_scope(TenantScope(tenant.tenant_id), engine=engine) as session:
                serial = f"{certificate.serial_number:x}"
                revoke_certificate(session, actor="bench", tenant_id=tenant.tenant_id, serial=serial, now=utc_now())
            began = time.perf_counter()
            while not is_revoked(body):
                continue
            took.append((time.perf_counter() - began) * 1000)
    engine.dispose()
    median = sorted(took)[len(took) // 2]
    what = f"time from a revocation to the first response that reports it, {len(took)} times"
    print(f"{what}: median {median:.1f} ms, longest {max(took):.1f} ms")


@contextmanager
def prepared_tenant() -> Iterator[tuple[Database, Certified, OcspRequests]]:
    cluster = Cluster()
    try:
        cluster.start()
        database = cluster.create_database()
        engines = {role: make_engine(database.url(f"admit_{role}")) for role in ("app", "cell", "worker")}
        tenant = certify(
            engines["app"], make_tenant(engines["app"], make_platform(engines["app"], engines["cell"]), "alpha").id
        )
        publish_all(engines["worker"])
        with session_scope(TenantScope(tenant.tenant_id), engine=engines["app"]) as session:
            issued = [tenant.issue(session, common_name=f"laptop {n}").certificate for n in range(CERTIFICATES)]
        for engine in engines.values():
            engine.dispose()
        issuing = tenant.authorities.issuing
        issuer = x509.load_der_x509_certificate(issuing.certificate_der)
        yield database, tenant, OcspRequests(str(issuing.id), issuer, issued)
    finally:
        cluster.remove()


@contextmanager
def public_server(database: Database, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    key, log, api_port = folder / "master.key", folder / "log", first_of_free_ports(3)
    # The second of three consecutive ports (nac.kit.settings).
    port = api_port + 1
    key.write_text(MASTER_KEY.hex())
    key.chmod(0o600)
    environment = {
        "ADMIT_VAR_DIR": str(folder),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_REDIS_URL": f"unix://{folder}/none",
        "ADMIT_MASTER_KEY_FILE": str(key),
        "ADMIT_LISTEN_ADDRESS": LOOPBACK,
        "ADMIT_API_PORT": str(api_port),
        "ADMIT_PUBLIC_REQUESTS_PER_SECOND": "0",
    }
    command = ["taskset", "--cpu-list", "0", sys.executable, "-m", "api.public"]
    process = start_process(command, output=log, **environment)
    try:

        def answers() -> bool:
            try:
                return httpx.get(f"http://{LOOPBACK}:{port}/readyz", trust_env=False).is_success
            except httpx.TransportError:
                return False

        wait_until(answers, "the public application", seconds=20, process=process, log=log)
        yield process, port
    finally:
        end_process(process)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else _SECONDS
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {0} or {0})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-ocsp-")))
        database, tenant, questions = stack.enter_context(prepared_tenant())
        server, port = stack.enter_context(public_server(database, folder))
        print(f"{CONNECTIONS} connections, {CERTIFICATES} certificates, {seconds:g} s each")
        measure("kept, POST", server, port, questions.kept_post, seconds)
        measure("kept, GET", server, port, questions.kept_get, seconds)
        measure("nonce", server, port, questions.with_nonce, seconds)
        measure("not kept", server, port, questions.not_kept, seconds)
        measure_revocations(database, tenant, port, questions)
        print(f"memory of the process: {resident_bytes(server.pid) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
