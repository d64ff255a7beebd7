"""Checks of a tenant's OCSP responder and revocation lists with openssl."""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from cryptography import x509

from cli.demo.checks import Check, Observation
from cli.demo.credentials import Credential
from cli.demo.seed import DemoTenant
from cli.demo.tools import ToolFailed, run_openssl

# Maximum wait for the first list. The worker publishes lists of new authorities periodically, and may have just
# started.
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.5
_HTTP_SECONDS = 5.0


def status_checks(tenant: DemoTenant, other: DemoTenant) -> Iterator[Check]:
    for what, credential, status in (("valid", tenant.device, "good"), ("revoked", tenant.revoked, "revoked")):
        yield _check(tenant, "OCSP", f"{what} certificate", f"{status}, signed", _ocsp(tenant, credential.certificate))
    foreign = x509.load_pem_x509_certificates(other.device.certificate.read_bytes())[0].serial_number
    yield _check(tenant, "OCSP", f"{other.slug}'s certificate", "unknown, signed", _ocsp(tenant, foreign))
    for what, credential, status in (("valid", tenant.device, "good"), ("revoked", tenant.revoked, "revoked")):
        yield _check(tenant, "CRL", f"{what} certificate", status, _lists(tenant, credential))


def _check(tenant: DemoTenant, name: str, sent: str, expected: str, ask: Callable[[], str]) -> Check:
    def act(mark: str) -> Observation:
        started = time.perf_counter()
        return Observation(_patiently(ask, expected, started + _PATIENCE_SECONDS), time.perf_counter() - started)

    return Check(tenant.slug, name, sent, expected, reason="", act=act, records=0)


def _patiently(ask: Callable[[], str], expected: str, deadline: float) -> str:
    while (answer := ask()) != expected and time.perf_counter() < deadline:
        time.sleep(_PAUSE_SECONDS)
    return answer


def _ocsp(tenant: DemoTenant, certificate: Path | int) -> Callable[[], str]:
    """Return the OCSP status, and whether the response has a valid signature, such as "good, signed"."""
    about = ["-cert", str(certificate)] if isinstance(certificate, Path) else ["-serial", f"0x{certificate:x}"]
    issuer, trust = ["-issuer", str(tenant.issuing)], ["-CAfile", str(tenant.ca), "-verify_other", str(tenant.issuing)]

    def ask() -> str:
        output = run_openssl(
            "ocsp", *issuer, *about, "-url", tenant.ocsp_url, *trust, "-timeout", f"{_HTTP_SECONDS:.0f}"
        )
        status = next((word for word in ("good", "revoked", "unknown") if f"{about[1]}: {word}" in output), "")
        if not status:
            return " ".join(output.split())[-80:]
        return f"{status}, {'signed' if 'Response verify OK' in output else 'not signed'}"

    return ask


def _lists(tenant: DemoTenant, credential: Credential) -> Callable[[], str]:
    """Check the chain of the certificate with the revocation lists of root and issuing authority."""

    def ask() -> str:
        with tempfile.TemporaryDirectory(prefix="admit-crl-") as folder:
            options = []
            for number, url in enumerate((tenant.root_crl_url, tenant.crl_url)):
                file = Path(folder) / f"{number}.crl"
                try:
                    reply = httpx.get(url, timeout=_HTTP_SECONDS, trust_env=False)
                except httpx.TransportError as exc:
                    raise ToolFailed(f"{url} does not respond: {exc}", place="CRL") from exc
                if not reply.is_success:
                    return f"no list (HTTP status {reply.status_code})"
                file.write_bytes(reply.content)
                options += ["-CRLfile", str(file)]
            trust = ["-CAfile", str(tenant.ca), "-untrusted", str(tenant.issuing)]
            output = run_openssl("verify", "-crl_check_all", *trust, *options, str(credential.certificate))
        if output.rstrip().endswith(": OK"):
            return "good"
        return "revoked" if "certificate revoked" in output else " ".join(output.split())[-80:]

    return ask
