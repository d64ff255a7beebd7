"""A real radiusd with a handwritten replica and without an agent: only the module and its configuration."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec
from cryptography import x509

from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.records import AccountingRecord, AnyRecord, AuthRecord, CertificateSentRecord
from nac.cellformat.methods import DEFAULT_TLS_VERSIONS
from nac.cellformat.replica.records import CertificateRecord, UserRecord
from nac.cellformat.replica.store import ReplicaWriter, WriteBatch
from nac.kit.passwords import hash_password
from nac.kit.secrets import MasterKeyFile, Sealer
from radius.agent.paths import CellPaths
from radius.agent.radiusd import probe, process
from radius.agent.radiusd.configuration import (
    CellConfig,
    NasClient,
    SlotConfig,
    VerifierConfig,
    python_path,
    render_configuration,
)
from radius.agent.radiusd.generation import verifier_secret
from radius.agent.radiusd.tls_material import TenantMaterial, TlsMaterialStore
from radius.module.settings import ModuleSettings
from tests.ports import free_row
from tests.radius.pbkdf2_hashes import earlier_hash
from tests.radius.tenants import PASSWORD, Authorities, ClientFiles, Tenant, der

LOOPBACK = "127.0.0.1"
# A NAS that may omit Message-Authenticator, and a NAS with its own secret.
OLD_NAS = "127.0.0.66"
OWN_SECRET_NAS = "127.0.0.77"
OWN_SECRET = "secret-of-this-nas-alone"
STATUS_SECRET = "status-secret-of-the-tests"
FREE_SLOT, FREE_SLOT_SECRET = 2, "secret-of-a-free-slot"
_decode = msgspec.msgpack.Decoder(AnyRecord).decode


class JournalTail:
    """The records of one journal stream in order, written after the last `forget`."""

    def __init__(self, directory: Path) -> None:
        self._reader = JournalReader(directory)
        self._position = SegmentPosition()
        self._records: list[AnyRecord] = []

    def forget(self) -> None:
        """Ignore the existing records."""
        self.records()
        self._records.clear()

    def records(self) -> list[AnyRecord]:
        while (batch := self._reader.read_batch(self._position)).payloads:
            assert not batch.damaged
            assert not batch.cuts
            self._records += [_decode(payload) for payload in batch.payloads]
            self._position = batch.position
        return self._records

    def mark(self) -> int:
        return len(self.records())

    def take_back(self, mark: int) -> None:
        """Ignore the records after `mark`."""
        del self.records()[mark:]

    def close(self) -> None:
        self._reader.close()


# Every running cell.
journals: list[JournalTail] = []


@dataclass
class StandaloneCell:
    paths: CellPaths
    config: CellConfig
    tenants: dict[str, Tenant]
    free_slot: SlotConfig
    replica: ReplicaWriter
    sealer: Sealer
    running: process.RunningRadiusd
    auth: JournalTail
    acct: JournalTail
    is_changed: bool = False

    @property
    def alpha(self) -> Tenant:
        return self.tenants["alpha"]

    @property
    def bravo(self) -> Tenant:
        return self.tenants["bravo"]

    def forget_records(self) -> None:
        self.auth.forget()
        self.acct.forget()

    @contextmanager
    def changes(self) -> Iterator[WriteBatch]:
        """Change data in one transaction. The fixture `cell` restores the data after the test."""
        self.is_changed = True
        with self.replica.begin() as batch:
            yield batch

    def set_slot(self, tenant: Tenant | None = None, **settings: object) -> None:
        """Change settings of a tenant. By default the tenant is alpha."""
        tenant = tenant or self.alpha
        with self.changes() as batch:
            batch.put_slot(tenant.slot, tenant.slot_record(**settings))

    def set_policy(self, document: object, *, version: int = 8) -> None:
        """Change the policy of alpha's site."""
        with self.changes() as batch:
            batch.put_policy(self.alpha.number, self.alpha.policy_record(document, version=version))

    def put_certificate(self, client: ClientFiles, **changes: object) -> None:
        """Register a certificate of alpha, by default valid and for devices."""
        record = CertificateRecord("", "valid", "eap-client-device", client.name, "")
        with self.changes() as batch:
            batch.put_certificate(self.alpha.number, client.serial, msgspec.structs.replace(record, **changes))

    def put_user(self, name: str, password: str = PASSWORD, **changes: object) -> None:
        """Write a user of alpha's group staff, who may use CHAP. The hash has the format of an earlier version."""
        sealed = self.sealer.seal(password.encode(), "user:0")
        record = UserRecord("0", name, False, ("staff",), earlier_hash(password), sealed, 0)
        with self.changes() as batch:
            batch.put_user(self.alpha.number, msgspec.structs.replace(record, **changes))

    def put_argon2_user(self, name: str, password: str, **changes: object) -> None:
        self.put_user(name, **{"password_hash": hash_password(password), "sealed_password": b""} | changes)

    def trust_in_openssl(self, *more: x509.Certificate) -> None:
        """Change alpha's trust directory as the agent does: to its own authorities and `more`."""
        trusted = [der(each) for each in (*self.alpha.authorities.certificates, *more)]
        material = TenantMaterial(self.alpha.slot, trusted, self.alpha.server.serial, lambda: self.alpha.server)
        TlsMaterialStore(self.paths).place(material)

    @contextmanager
    def session_storage_missing(self) -> Iterator[None]:
        """Make it impossible to store TLS sessions of alpha."""
        folder = self.paths.sessions / f"slot-{self.alpha.slot}"
        away = folder.rename(folder.with_name("away"))
        try:
            yield
        finally:
            away.rename(folder)

    def restart_radiusd(self) -> None:
        process.stop(self.running)
        self.running = process.start(self.running.config_directory, self.paths.radiusd_log)
        assert probe.is_serving(LOOPBACK, self.config.status_port, STATUS_SECRET, seconds=20), self.log()

    def restore_replica(self) -> None:
        """Restore all records of the start, in one transaction."""
        self.is_changed = False
        with self.replica.begin() as batch:
            batch.clear()
            for tenant in self.tenants.values():
                tenant.fill(batch, self.sealer)

    def decisions(self, **wanted: object) -> list[AuthRecord]:
        return _matching(self.auth.records(), AuthRecord, wanted)

    def decision(self, **wanted: object) -> AuthRecord:
        """The only decision with these fields."""
        found = self.decisions(**wanted)
        assert len(found) == 1, f"{len(found)} decisions with {wanted}: {found}\n{self.log()[-4000:]}"
        return found[0]

    def certificates_sent(self, **wanted: object) -> list[CertificateSentRecord]:
        return _matching(self.auth.records(), CertificateSentRecord, wanted)

    def accounting(self) -> list[AccountingRecord]:
        return _matching(self.acct.records(), AccountingRecord, {})

    def statistics(self) -> dict[str, int]:
        found = probe.get_statistics(LOOPBACK, self.config.status_port, STATUS_SECRET, seconds=5)
        assert found is not None
        return found

    def log(self) -> str:
        return self.paths.radiusd_log.read_text(errors="replace")

    def is_alive(self) -> bool:
        return process.is_alive(self.running)


def _matching(records, kind, wanted):
    return [
        record
        for record in records
        if isinstance(record, kind) and all(getattr(record, name) == value for name, value in wanted.items())
    ]


@dataclass(frozen=True)
class Plan:
    """Settings in which the cells of these tests differ."""

    reject_delay_seconds: float = 0
    journal_max_bytes: int = 1 << 30
    journal_sync: Literal["interval", "always"] = "interval"
    slugs: tuple[str, ...] = ("alpha", "bravo")
    listen_address: str = LOOPBACK
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    # In radiusd's configuration, independent of the replica.
    tls_versions: tuple[str, ...] = DEFAULT_TLS_VERSIONS
    # Tenants whose secrets the module looks up.
    looking_up: tuple[str, ...] = ()
    max_packets_per_second: int = 0
    max_conversations: int = 1024


@contextmanager
def running_cell(plan: Plan) -> Iterator[StandaloneCell]:
    with ExitStack() as at_end:
        # A short path, because unlang expansions contain it. radiusd finds a cell's TLS session files by this name.
        root = Path(at_end.enter_context(tempfile.TemporaryDirectory(prefix="admit-r-")))
        paths = CellPaths(root / "cell")
        paths.prepare()
        at_end.callback(shutil.rmtree, paths.sessions, ignore_errors=True)
        count = 2 + 2 * (FREE_SLOT + 1)
        first = free_row(udp=count)
        verifier_port, status_port, *ports = range(first, first + count)
        tenants = {
            slug: _tenant(root, slug, number, ports[2 * number], ports[2 * number + 1])
            for number, slug in enumerate(plan.slugs)
        }
        sealer = Sealer(MasterKeyFile.create(paths.key))
        verifier = VerifierConfig(verifier_port, verifier_secret(paths))
        config = _config(plan, paths, tenants, verifier, status_port, ports)
        replica = ReplicaWriter(paths.replica, fresh=True)
        at_end.callback(replica.close)
        tails = [JournalTail(paths.journal / stream) for stream in ("auth", "acct")]
        for tail in tails:
            at_end.callback(tail.close)
        journals.extend(tails)
        at_end.callback(lambda: [journals.remove(tail) for tail in tails])
        generation = paths.generations / "1"
        render_configuration(config, generation)
        process.check_configuration(generation)
        running = process.start(generation, paths.radiusd_log)
        cell = StandaloneCell(paths, config, tenants, config.slots[-1], replica, sealer, running, *tails)
        # The test may have started another radiusd instead.
        at_end.callback(lambda: process.stop(cell.running))
        cell.restore_replica()
        assert probe.is_serving(LOOPBACK, status_port, STATUS_SECRET, seconds=20), cell.log()
        yield cell


def _tenant(root: Path, slug: str, slot: int, auth_port: int, acct_port: int) -> Tenant:
    authorities = Authorities(root / slug, slug.capitalize())
    return Tenant(
        slug,
        41 + slot,
        slot,
        authorities,
        authorities.server(),
        authorities.clients_for_every_refusal(),
        f"secret-of-{slug}-0123456789",
        auth_port,
        acct_port,
        baked=slug == "bravo",
    )


def _config(
    plan: Plan,
    paths: CellPaths,
    tenants: dict[str, Tenant],
    verifier: VerifierConfig,
    status_port: int,
    ports: list[int],
) -> CellConfig:
    materials = TlsMaterialStore(paths)
    placeholder = materials.ensure_placeholder()
    slots = []
    for number in range(FREE_SLOT + 1):
        materials.prepare_slot(number)
        slots.append(SlotConfig(number, ports[2 * number], ports[2 * number + 1], FREE_SLOT_SECRET, placeholder))
    baked: dict[int, str] = {}
    for tenant in tenants.values():
        trusted = [der(certificate) for certificate in tenant.authorities.certificates]
        serial = tenant.server.serial
        materials.place(TenantMaterial(tenant.slot, trusted, serial, lambda tenant=tenant: tenant.server))
        slots[tenant.slot] = replace(
            _tenant_slot(tenant, paths, placeholder),
            tls_versions=plan.tls_versions,
            uses_secret_lookup=tenant.slug in plan.looking_up,
        )
        if tenant.baked:
            baked[tenant.slot] = tenant.server.serial
    return CellConfig(
        plan.listen_address,
        status_port,
        STATUS_SECRET,
        plan.reject_delay_seconds,
        plan.threads,
        python_path(),
        paths.state,
        paths.tls,
        paths.sessions,
        ModuleSettings(
            str(paths.replica),
            str(paths.journal),
            str(paths.tls),
            plan.journal_max_bytes,
            plan.journal_sync,
            baked,
            str(paths.key),
            str(paths.claims),
            trusted_stations_file=str(paths.trusted_stations),
            status_port=status_port,
            status_secret=STATUS_SECRET,
            max_conversations=plan.max_conversations,
            exempt={slot.number: (OLD_NAS,) for slot in slots if not slot.uses_secret_lookup},
        ),
        slots,
        verifier,
        max_sessions=plan.max_conversations,
        max_packets_per_second=plan.max_packets_per_second,
    )


def _tenant_slot(tenant: Tenant, paths: CellPaths, placeholder: Path) -> SlotConfig:
    certificate = paths.server_certificate(tenant.slot, tenant.server.serial) if tenant.baked else placeholder
    return SlotConfig(
        tenant.slot,
        tenant.auth_port,
        tenant.acct_port,
        tenant.secret,
        certificate,
        tenant.server.serial if tenant.baked else "",
        (
            NasClient("old switch", OLD_NAS, tenant.secret, require_message_authenticator=False),
            NasClient("own secret", OWN_SECRET_NAS, OWN_SECRET, require_message_authenticator=True),
        ),
    )
