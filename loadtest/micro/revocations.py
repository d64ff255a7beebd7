"""Measures the time from a revocation to the first Access-Reject: `python -m loadtest.micro.revocations [--rounds N]`.

Uses a private installation. In each round, a device authenticates and resumes its TLS session. Then a service of Admit
revokes the device's certificate. The device resumes the session again and again until Admit rejects the device. The
measured time begins with the call of the service and ends with the Access-Reject. In this benchmark, radiusd does not
delay rejects (default: 1 s).
"""

import argparse
import ssl
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from loadtest.bench_tenants import ACTOR, BenchTenants, ProvisionedTenant
from loadtest.certificates import ClientFiles
from loadtest.eap_tls_client import RESUMED, EapTls, Supplicant, client_context
from loadtest.private_installation import PrivateInstallation
from loadtest.processes import BenchError
from loadtest.radius_client import CODE_NAMES, RadiusClient, Source
from loadtest.tenants import GROUPS, BenchEndpoint, BenchTenant
from loadtest.workloads import BENCH_NAS
from nac.certificates import service as certificates
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.radius_packet import ACCESS_REJECT, CALLING_STATION_ID, encode_attribute

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_MAX_SECONDS = 10


class _Device:
    def __init__(
        self, client: RadiusClient, made: ProvisionedTenant, files: ClientFiles, version: str, mac: str
    ) -> None:
        self._client = client
        self._target = made.target
        context = client_context(certificate=str(files.certificate), key=str(files.key), version=VERSIONS[version])
        attributes = BENCH_NAS.attributes() + encode_attribute(CALLING_STATION_ID, mac)
        self._supplicant = Supplicant(context, files.identity, attributes)

    def is_refused(self, *, resume: bool = True) -> bool:
        """Authenticate the device, and return whether Admit rejects it.

        The device stores the TLS session for the next attempt. If `resume` is true, raises BenchError if the TLS
        session was not resumed.
        """
        conversation = EapTls(self._target, self._supplicant, resume=resume, keep_session=True)
        run = self._client.run(_once(conversation), count=1, window=1)
        faults = list(run.faults())
        if resume and conversation.kind != RESUMED:
            raise BenchError(f"the session was not resumed: {conversation.kind} {faults}")
        if any(f"{CODE_NAMES[ACCESS_REJECT]} instead" in fault for fault in faults):
            return True
        if faults:
            raise BenchError(f"while revoking: {faults}")
        return False


def _once(conversation: EapTls) -> Source:
    left = [conversation]
    return lambda: left.pop() if left else None


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the times of the rounds in seconds, sorted, for each TLS version."""
    with ExitStack() as stack:
        private = stack.enter_context(PrivateInstallation(REJECT_DELAY_SECONDS="0"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-")))
        tenants = BenchTenants(private.installation, folder, print)
        device = BenchEndpoint("02be00000000", GROUPS[0])
        made = tenants.provision(BenchTenant("revoke", [device]), clients=len(VERSIONS) * rounds)
        tenants.wait_live(made)
        client = stack.enter_context(RadiusClient())
        files = iter(made.clients)
        return {
            version: sorted(_round(private, client, made, next(files), version, number) for number in range(rounds))
            for version in VERSIONS
        }


def _round(
    private: PrivateInstallation,
    client: RadiusClient,
    made: ProvisionedTenant,
    files: ClientFiles,
    version: str,
    number: int,
) -> float:
    device = _Device(client, made, files, version, f"02be{number:08x}")
    if device.is_refused(resume=False) or device.is_refused():
        raise BenchError("a valid certificate was rejected")
    start = perf_counter()
    with session_scope(TenantScope(made.tenant_id), engine=private.installation.engine) as session:
        certificates.revoke_certificate(
            session, actor=ACTOR, tenant_id=made.tenant_id, serial=files.serial, now=utc_now(), reason="keyCompromise"
        )
    while not device.is_refused():
        if perf_counter() - start > _MAX_SECONDS:
            raise BenchError(f"the cell did not use a revocation within {_MAX_SECONDS} s")
    return perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    for version, seconds in measure(parser.parse_args().rounds).items():
        p50, p99 = (seconds[min(len(seconds) - 1, int(len(seconds) * share))] for share in (0.5, 0.99))
        print(
            f"TLS {version}: {len(seconds)} revocations, resumed session rejected after {1000 * p50:.0f} ms (p50), "
            f"{1000 * p99:.0f} ms (p99), {1000 * seconds[-1]:.0f} ms at most"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
