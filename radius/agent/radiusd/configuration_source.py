"""Reads radiusd's configuration from PostgreSQL: slots (port pairs), secrets, NASes with their own secrets,
certificates.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Engine, or_, select
from sqlalchemy.orm import Session

from nac.cellformat.methods import DEFAULT_TLS_VERSIONS
from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId, SlotNumber, TenantId
from nac.kit.secrets import Sealer
from nac.kit.validation import RADIUS_SECRET
from nac.models import Certificate, CertificateAuthority, Nas, SecretRotation, Slot, Tenant
from nac.tenancy.cells import service as cells
from pki.openssl_names import issuer_line
from radius.agent.radiusd.configuration import NasClient
from radius.agent.radiusd.tls_material import ServerCertificate, TenantMaterial

SERVER_PROFILE = "eap-server"
# Tenants with a running rotation of the tenant's secret or of a NAS's secret.
_TENANTS_IN_ROTATION = select(SecretRotation.tenant_id).where(SecretRotation.state == "running")


@dataclass(frozen=True)
class SlotRow:
    """A slot (port pair) of the cell, with its decrypted secret."""

    number: int
    auth_port: int
    acct_port: int
    status: str
    tenant_id: TenantId | None
    secret: str
    nas_clients: tuple[NasClient, ...]
    tls_versions: tuple[str, ...] = DEFAULT_TLS_VERSIONS
    trust_generation: int = 0
    # The encrypted secret. The encrypted text changes whenever the secret changes.
    sealed: bytes = b""
    # Whether a secret of this tenant or of its NASes is being rotated.
    uses_secret_lookup: bool = False

    def with_ports(self, auth_port: int, acct_port: int) -> "SlotRow":
        return replace(self, auth_port=auth_port, acct_port=acct_port)


class ConfigurationSource:
    def __init__(self, engine: Engine, cell_id: CellId, sealer: Sealer) -> None:
        self._engine = engine
        self._cell_id = cell_id
        self._sealer = sealer
        # Slots and NASes whose secrets radiusd's configuration cannot contain, as of the last read.
        self.unusable_secrets: Sequence[str] = ()

    def slots(self, *, count: int) -> list[SlotRow]:
        """Return all slots (port pairs) whose number is below `count`.

        The result includes free and retired slots, because radiusd listens on the ports of all slots.
        """
        with self._session() as session:
            rows = session.scalars(select(Slot).where(Slot.cell_id == self._cell_id).order_by(Slot.number)).all()
            unusable: list[str] = []
            clients = self._nas_clients(session, unusable)
            tenants = {tenant.id: tenant for tenant in session.scalars(select(Tenant))}
            changing = set(session.scalars(_TENANTS_IN_ROTATION))
            slots = [
                SlotRow(
                    int(row.number),
                    row.auth_port,
                    row.acct_port,
                    row.status,
                    row.tenant_id,
                    self._open(row.secret_sealed, f"slot:{row.id}", f"slot {row.number}", unusable),
                    tuple(clients.get(whose, ())) if whose else (),
                    tuple(tenant.tls_versions) if tenant else DEFAULT_TLS_VERSIONS,
                    tenant.trust_generation if tenant else 0,
                    row.secret_sealed,
                    uses_secret_lookup=whose in changing,
                )
                for row in rows
                if row.number < count
                # Configure a slot that is reserved for a moving tenant as if the tenant had arrived.
                for whose in [row.tenant_id or row.reserved_for]
                for tenant in [tenants.get(whose) if whose else None]
            ]
        self.unusable_secrets = unusable
        return slots

    def renew_retired(self, *, count: int) -> list[SlotNumber]:
        """Create new secrets for slots (port pairs) whose tenant has left.

        Call `free` as soon as radiusd uses the new secrets.
        """
        with self._session() as session:
            return cells.renew_retired_slots(session, cell_id=self._cell_id, count=count, seal=self._sealer.seal)

    def free(self, numbers: Collection[SlotNumber]) -> None:
        with self._session() as session:
            cells.mark_slots_free(session, cell_id=self._cell_id, numbers=numbers)

    def make_ready(self, slots: Iterable[SlotRow]) -> None:
        """Record that radiusd uses the secrets of these reserved slots (port pairs).

        The tenants of the reservations may then move to the slots.
        """
        sealed = [slot.sealed for slot in slots if slot.status == "reserved"]
        if sealed:
            with self._session() as session:
                cells.mark_slots_ready(session, cell_id=self._cell_id, sealed=sealed)

    def note_open(self, slots: Iterable[SlotRow]) -> None:
        """Record that radiusd accepts both secrets, the old and the new, for rotations of the tenants in `slots`."""
        tenants = [slot.tenant_id for slot in slots if slot.uses_secret_lookup and slot.status == "assigned"]
        if tenants:
            with self._session() as session:
                cells.mark_rotations_open(session, tenant_ids=tenants)

    def material(self, session: Session, slot: int, tenant_id: TenantId, server_serial: str) -> TenantMaterial:
        """Read authorities and certificate of a tenant.

        Reads in the caller's transaction, so that authorities and certificate match the replica.
        """
        authorities = session.scalars(
            select(CertificateAuthority.certificate_der).where(
                CertificateAuthority.tenant_id == tenant_id, CertificateAuthority.status != "revoked"
            )
        ).all()
        return TenantMaterial(slot, authorities, server_serial, self._server_reader(session, tenant_id, server_serial))

    def _server_reader(self, session: Session, tenant_id: TenantId, serial: str) -> Callable[[], ServerCertificate]:
        def read() -> ServerCertificate:
            certificate = session.scalars(
                select(Certificate).where(
                    Certificate.tenant_id == tenant_id, Certificate.serial == bytes.fromhex(serial)
                )
            ).one()
            if certificate.certificate_der is None or certificate.key_sealed is None:
                raise LookupError(f"server certificate {serial} has no key; issue another certificate")
            key = self._sealer.open(certificate.key_sealed, f"certificate:{certificate.id}")
            chain = [certificate.certificate_der, *self._chain(session, tenant_id, certificate.authority_id)]
            pem = b"".join(x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM) for der in chain)
            return ServerCertificate(serial, key + pem)

        return read

    @staticmethod
    def _chain(session: Session, tenant_id: TenantId, authority_id: UUID) -> list[bytes]:
        """Issuing authorities from `authority_id` upwards. The root is omitted, because each device has the root.

        The chain includes certificates that link a former root to its successor, for devices that trust only the former
        root.
        """
        authority = CertificateAuthority
        query = select(
            authority.id,
            authority.subject,
            authority.status,
            authority.certificate_der,
            authority.issuer_id,
            authority.cross_der,
        ).where(authority.tenant_id == tenant_id, authority.kind != "external")
        rows = {row.id: row for row in session.execute(query)}
        chain: list[bytes] = []
        above = rows[authority_id]
        while above.issuer_id is not None:
            chain.append(above.certificate_der)
            above = rows[above.issuer_id]
        standing = {row.subject: row.cross_der for row in rows.values() if row.status != "revoked"}
        cross: bytes | None = above.cross_der
        while cross is not None:
            chain.append(cross)
            # Use each certificate once: uploaded authorities may form a circle.
            cross = standing.pop(issuer_line(x509.load_der_x509_certificate(cross)), None)
        return chain

    def _nas_clients(self, session: Session, unusable: list[str]) -> dict[TenantId, list[NasClient]]:
        clients: dict[TenantId, list[NasClient]] = {}
        held = session.scalars(select(Slot).where(Slot.cell_id == self._cell_id))
        secrets = {row.tenant_id or row.reserved_for: row for row in held}
        own = session.scalars(
            select(Nas)
            .where(
                Nas.address.is_not(None),
                or_(Nas.secret_sealed.is_not(None), Nas.require_message_authenticator.is_(False)),
            )
            .order_by(Nas.id)
        )
        for nas in own:
            slot = secrets[nas.tenant_id]
            secret = (
                self._open(nas.secret_sealed, f"nas:{nas.id}", f"NAS {nas.name} of slot {slot.number}", unusable)
                if nas.secret_sealed is not None
                else self._open(slot.secret_sealed, f"slot:{slot.id}", f"slot {slot.number}", [])
            )
            clients.setdefault(nas.tenant_id, []).append(
                NasClient(nas.name, str(nas.address), secret, nas.require_message_authenticator)
            )
        return clients

    def _open(self, sealed: bytes, context: str, whose: str, unusable: list[str]) -> str:
        """Decrypt a RADIUS secret.

        If the configuration cannot contain the secret, adds the slot or NAS (`whose`) to `unusable`, and returns a
        substitute that nobody knows. The substitute is the same at each call.
        """
        secret = self._sealer.open(sealed, context).decode("ascii", "replace")
        if RADIUS_SECRET.fullmatch(secret):
            return secret
        unusable.append(whose)
        return hashlib.sha256(sealed).hexdigest()

    def _session(self) -> AbstractContextManager[Session]:
        return session_scope(CellScope(self._cell_id), engine=self._engine)
