"""A cell's radiusd without PostgreSQL and agent.

The benchmark writes the replica. radiusd runs Admit's module with a journal.

The result shows the cost of radiusd itself: the maximum rate of a cell, and the cost of each slot (port pair of a
tenant).
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Self
from uuid import UUID

from cryptography.hazmat.primitives.serialization import Encoding

from loadtest.certificates import BenchAuthority, ClientFiles
from loadtest.processes import LOOPBACK, BenchError, ProcessTree, free_ports
from loadtest.radius_client import RadiusClient, Target, UnexpectedReply
from loadtest.systems import ExpectedSupplicant, SystemUnderTest, make_supplicants
from loadtest.tenants import CERTIFICATE_VLAN, BenchTenant, policy_document
from loadtest.workloads import BenchDevice, StatusServer
from nac.cellformat.replica.records import (
    AuthorityRecord,
    CertificateRecord,
    EndpointRecord,
    IssuerRecord,
    PolicyRecord,
    SiteRecord,
    SlotRecord,
    TrustedAuthority,
)
from nac.cellformat.replica.store import ReplicaWriter, WriteBatch
from nac.kit.settings import load_settings
from pki.signatures import public_key_der
from radius.agent.paths import CellPaths
from radius.agent.radiusd import process
from radius.agent.radiusd.configuration_source import SlotRow
from radius.agent.radiusd.generation import Generations
from radius.agent.radiusd.tls_material import ServerCertificate, TenantMaterial, TlsMaterialStore

NAME = "cell alone"
_CLIENTS_PER_TENANT = 4
_START_SECONDS = 20


class BareCell:
    """Runs radiusd during a `with`.

    Tenant number n uses slot n - 1 (port pair of the cell). No tenant uses the other slots.
    """

    def __init__(
        self,
        folder: Path,
        tenants: Sequence[BenchTenant],
        *,
        slots: int,
        listen_address: str = LOOPBACK,
        tenant_packets_per_second: int | None = 0,
    ) -> None:
        """`folder` must exist and belong to the account of this process.

        `tenant_packets_per_second` is the packet limit of a tenant; None for the default, 0 for no limit.
        """
        self._paths = CellPaths(folder / "cell")
        self._tenants = tenants
        variables = {"VAR_DIR": str(folder), "CELL_DIR": str(self._paths.root), "LISTEN_ADDRESS": listen_address}
        if tenant_packets_per_second is not None:
            variables["CELL_TENANT_PACKETS_PER_SECOND"] = str(tenant_packets_per_second)
        settings = load_settings({f"ADMIT_{name}": value for name, value in variables.items()})
        self._generations = Generations(settings, self._paths)
        self._materials = TlsMaterialStore(self._paths)
        self._authorities = [_authority(folder, tenant.slug) for tenant in tenants]
        status_port, *ports = free_ports(1 + 2 * slots)
        self._status_port = status_port
        self._slots = [
            SlotRow(number, ports[2 * number], ports[2 * number + 1], "free", None, os.urandom(16).hex(), ())
            for number in range(slots)
        ]
        # Seconds from the start of the process until the last slot responded.
        self.ready_seconds = 0.0

    def __enter__(self) -> Self:
        self._paths.prepare()
        self._paths.key.touch(mode=0o600)
        self._paths.key.write_text(os.urandom(32).hex())
        self._materials.ensure_placeholder()
        for slot in self._slots:
            self._materials.prepare_slot(slot.number)
        self._clients = self._fill()
        serials = {number: authority.server_serial for number, authority in enumerate(self._authorities)}
        generation = self._generations.make(self._slots, serials, status_port=self._status_port)
        start = perf_counter()
        self._running = process.start(generation.directory, self._paths.radiusd_log)
        try:
            self._wait(start)
        except BenchError:
            self.__exit__()
            raise
        self.ready_seconds = perf_counter() - start
        return self

    def __exit__(self, *_: object) -> None:
        process.stop(self._running)
        shutil.rmtree(self._paths.sessions, ignore_errors=True)

    @property
    def pid(self) -> int:
        return self._running.pid

    def system(self) -> SystemUnderTest:
        targets = [self._target(number) for number in range(len(self._tenants))]
        devices = [
            BenchDevice(target, endpoint.mac, endpoint.vlan)
            for target, tenant in zip(targets, self._tenants, strict=True)
            for endpoint in tenant.endpoints
        ]
        supplicants: list[ExpectedSupplicant] = []
        for target, authority, clients in zip(targets, self._authorities, self._clients, strict=True):
            supplicants += make_supplicants(target, clients, authority.server_certificate, CERTIFICATE_VLAN)
        return SystemUnderTest(
            NAME,
            Random(7).sample(devices, len(devices)),
            supplicants,
            lambda: {"radiusd": ProcessTree(self._running.pid)},
        )

    def _target(self, number: int) -> Target:
        slot = self._slots[number]
        return Target(LOOPBACK, slot.auth_port, slot.acct_port, slot.secret.encode())

    def _wait(self, start: float) -> None:
        with RadiusClient(timeout_seconds=0.05, tries=1) as client:
            for number in range(len(self._slots)):
                while not _is_answering(client, self._target(number)):
                    if perf_counter() - start > _START_SECONDS or not process.is_alive(self._running):
                        log = self._paths.radiusd_log.read_text(errors="replace").splitlines()[-10:]
                        raise BenchError("the cell's radiusd does not respond\n" + "\n".join(log))

    def _fill(self) -> list[list[ClientFiles]]:
        """Write the replica, trusted authorities and server certificates.

        Returns the client certificates of each tenant.
        """
        clients = []
        writer = ReplicaWriter(self._paths.replica, fresh=True)
        with writer.begin() as batch:
            for slot, (tenant, authority) in enumerate(zip(self._tenants, self._authorities, strict=True)):
                self._place(batch, slot, tenant, authority)
                clients.append([authority.client(f"device-{number}") for number in range(_CLIENTS_PER_TENANT)])
                for client in clients[-1]:
                    batch.put_certificate(slot + 1, client.serial, _valid_certificate(client.identity))
            batch.set_meta("complete", "yes")
        writer.close()
        return clients

    def _place(self, batch: WriteBatch, slot: int, tenant: BenchTenant, authority: BenchAuthority) -> None:
        number, site, policy = slot + 1, str(UUID(int=slot + 1)), str(UUID(int=1000 + slot))
        batch.put_slot(
            slot,
            SlotRecord(
                number, str(UUID(int=2000 + slot)), tenant.slug, "active", site, authority.server_serial, 200, 60
            ),
        )
        batch.put_site(number, SiteRecord(site, "main", policy))
        batch.put_policy(number, PolicyRecord(policy, "bench", 1, json.dumps(policy_document()).encode()))
        for endpoint in tenant.endpoints:
            record = EndpointRecord(str(UUID(int=slot)), "", "active", (endpoint.group,), 0, {})
            batch.put_endpoint(number, endpoint.mac, record)
        batch.put_authority(authority.issuer, AuthorityRecord(((number, True),)))
        batch.put_issuer(number, authority.issuer, IssuerRecord((_trusted_authority(authority),)))
        ders = [certificate.public_bytes(Encoding.DER) for certificate in authority.certificates]
        server = ServerCertificate(authority.server_serial, authority.server_pem())
        self._materials.place(TenantMaterial(slot, ders, authority.server_serial, lambda: server))


def _authority(folder: Path, slug: str) -> BenchAuthority:
    home = folder / slug
    home.mkdir()
    return BenchAuthority(home, slug)


def _trusted_authority(authority: BenchAuthority) -> TrustedAuthority:
    issuing = authority.certificates[-1]
    key = public_key_der(issuing.public_bytes(Encoding.DER))
    return TrustedAuthority(str(UUID(int=3000)), key, True, False, int(issuing.not_valid_after_utc.timestamp()))


def _valid_certificate(name: str) -> CertificateRecord:
    return CertificateRecord(str(UUID(int=1)), "valid", "eap-client-device", name, "")


def _is_answering(client: RadiusClient, target: Target) -> bool:
    try:
        client.ask(StatusServer(target))
    except UnexpectedReply:
        return False
    return True
