"""Two tenants of a cell: real authorities and certificates, and their records in the replica."""

import json
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import (
    CertificateRecord,
    EndpointRecord,
    IdentitySourceRecord,
    NasRecord,
    PolicyRecord,
    SiteRecord,
    SlotRecord,
    UserRecord,
    nt_hash_context,
)
from nac.cellformat.replica.store import WriteBatch
from nac.kit.clock import utc_now
from nac.kit.passwords import compute_nt_hash
from nac.kit.secrets import Sealer
from pki.bundles import certificates_pem
from pki.issuance import Issuer, issue, issue_root
from pki.keys import PrivateKey, generate_key, key_pem
from pki.names import San, parse_san, subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from radius.agent.radiusd.tls_material import ServerCertificate
from tests.engine.builders import compare, pinned, policy_of, rule
from tests.radius.pbkdf2_hashes import earlier_hash
from tests.radius.trusted_authorities import put_trusted

PRINTER = "02a0c0000001"
BLOCKED = "02a0c0000002"
EXPIRED = "02a0c0000003"
STOLEN = "02a0c0000004"
PASSWORD = "correct horse"

POLICY = policy_of(
    rule(
        "printers",
        {"all": [compare("method", "equals", "mab"), compare("endpoint.group", "equals", "printers")]},
        {"verdict": "permit", "vlan": "20", "reply": [{"attribute": "Session-Timeout", "value": "3600"}]},
    ),
    rule("machines", compare("method", "equals", "eap-tls"), {"verdict": "permit", "vlan": "10"}),
    rule("guests", compare("user.group", "equals", "guests"), {"verdict": "deny"}),
    rule("staff", compare("user.group", "equals", "staff"), {"verdict": "permit", "vlan": "30"}),
    pinned_denies=[pinned("stolen", compare("endpoint.group", "equals", "stolen"))],
    fallback={"verdict": "deny"},
)


@dataclass(frozen=True)
class ClientFiles:
    """A device's certificate files as PEM, for eapol_test."""

    name: str
    certificate: x509.Certificate
    # The certificate with its issuing authority, and the private key.
    chain_file: Path
    key_file: Path

    @property
    def serial(self) -> str:
        return f"{self.certificate.serial_number:x}".zfill(32)


class Authorities:
    """A root and an issuing authority. Issued certificates are files below `folder`."""

    def __init__(self, folder: Path, organisation: str) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.organisation = organisation
        self.now = utc_now()
        root_key, issuing_key = generate_key(), generate_key()
        self.root = Issuer(
            issue_root(
                PROFILES["root"],
                key=root_key,
                subject=subject_name(f"{organisation} Root CA", organisation=organisation),
                now=self.now,
                serial=random_serial(),
            ),
            root_key,
        )
        self.issuing = Issuer(
            issue(
                PROFILES["issuing"],
                public_key=issuing_key.public_key(),
                subject=subject_name(f"{organisation} Issuing CA", organisation=organisation),
                issuer=self.root,
                now=self.now,
                serial=random_serial(),
            ),
            issuing_key,
        )
        self.root_file = folder / "root.pem"
        self.root_file.write_bytes(certificates_pem([self.root.certificate]))

    @property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        return self.root.certificate, self.issuing.certificate

    def client(
        self,
        name: str,
        *sans: str,
        profile: str = "eap-client-device",
        not_before: datetime | None = None,
        not_after: datetime | None = None,
    ) -> ClientFiles:
        key = generate_key()
        certificate = issue(
            PROFILES[profile],
            public_key=key.public_key(),
            subject=subject_name(name, organisation=self.organisation),
            sans=[parse_san(text) for text in sans],
            issuer=self.issuing,
            now=self.now,
            serial=random_serial(),
            not_before=not_before,
            not_after=not_after,
        )
        return self.write_client(name, certificate, key)

    def write_client(
        self, name: str, certificate: x509.Certificate, key: PrivateKey, *, chain: bytes | None = None
    ) -> ClientFiles:
        chain_file, key_file = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        chain_file.write_bytes(chain or certificates_pem([certificate, self.issuing.certificate]))
        key_file.write_bytes(key_pem(key))
        return ClientFiles(name, certificate, chain_file, key_file)

    def server(self) -> ServerCertificate:
        key = generate_key()
        host = f"radius.{self.organisation.lower()}.example"
        certificate = issue(
            PROFILES["eap-server"],
            public_key=key.public_key(),
            subject=subject_name(host, organisation=self.organisation),
            sans=[San("dns", host)],
            issuer=self.issuing,
            now=self.now,
            serial=random_serial(),
        )
        pem = key_pem(key) + certificates_pem([certificate, self.issuing.certificate])
        return ServerCertificate(f"{certificate.serial_number:x}".zfill(32), pem)

    def clients_for_every_refusal(self) -> dict[str, ClientFiles]:
        """Client certificates by their defect, or by their lack of a defect."""
        day = timedelta(days=1)
        return {
            "laptop": self.client("laptop", "dns:laptop.example"),
            "spare": self.client("spare"),
            "revoked": self.client("revoked"),
            "suspended": self.client("suspended"),
            "unknown": self.client("unknown"),
            "expired": self.client("expired", not_before=self.now - 9 * day, not_after=self.now - day),
            "early": self.client("early", not_before=self.now + day, not_after=self.now + 9 * day),
            "server": self.client("server", "dns:server.example", profile="eap-server"),
        }


_STATUS = {"revoked": ("revoked", "keyCompromise"), "suspended": ("suspended", "certificateHold")}


@dataclass(frozen=True)
class Tenant:
    slug: str
    number: int
    slot: int
    authorities: Authorities
    server: ServerCertificate
    clients: dict[str, ClientFiles]
    secret: str
    auth_port: int
    acct_port: int
    # Whether the server certificate is in radiusd's configuration. Otherwise radiusd reads its file for each session.
    baked: bool
    tenant_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    site_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    policy_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    nas_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    user_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def slot_record(self, **settings: object) -> SlotRecord:
        record = SlotRecord(
            self.number,
            self.tenant_id,
            self.slug,
            "active",
            self.site_id,
            self.server.serial,
            failure_limit=200,
            failure_window_seconds=60,
            own_authorities_only=True,
            cui_key=self.slug.encode(),
            password_failure_limit=10_000,
            password_failure_window_seconds=60,
        )
        return msgspec.structs.replace(record, **settings)

    def policy_record(self, document: object = POLICY, *, version: int = 7) -> PolicyRecord:
        return PolicyRecord(self.policy_id, "Office", version, json.dumps(document).encode())

    def fill(self, batch: WriteBatch, sealer: Sealer) -> None:
        """Write every record of this tenant."""
        batch.put_slot(self.slot, self.slot_record())
        batch.put_site(self.number, SiteRecord(self.site_id, "Head office", self.policy_id))
        batch.put_policy(self.number, self.policy_record())
        nas = NasRecord(self.nas_id, "Switch 1", self.site_id, "cisco")
        batch.put_nas(keys.by_identifier(self.number, "switch-1"), nas)
        for certificate in self.authorities.certificates:
            put_trusted(batch, self.number, certificate, own=True)
        self._fill_endpoints(batch)
        self._fill_users(batch, sealer)
        for name, client in self.clients.items():
            if name != "unknown":
                status, reason = _STATUS.get(name, ("valid", ""))
                record = CertificateRecord(str(uuid.uuid4()), status, "eap-client-device", name, reason)
                batch.put_certificate(self.number, client.serial, record)

    def _fill_endpoints(self, batch: WriteBatch) -> None:
        yesterday = int((self.authorities.now - timedelta(days=1)).timestamp())
        for mac, name, status, group, valid_until in (
            (self.mac(PRINTER), "printer", "active", "printers", 0),
            (self.mac(BLOCKED), "blocked", "blocked", "printers", 0),
            (self.mac(EXPIRED), "expired", "active", "printers", yesterday),
            (self.mac(STOLEN), "stolen", "active", "stolen", 0),
        ):
            record = EndpointRecord(str(uuid.uuid4()), name, status, (group,), valid_until, {"floor": "3"})
            batch.put_endpoint(self.number, mac, record)

    def _fill_users(self, batch: WriteBatch, sealer: Sealer) -> None:
        yesterday = int((self.authorities.now - timedelta(days=1)).timestamp())
        for name, disabled, group, reversible, valid_until in (
            ("anna", False, "staff", True, 0),
            (f"{self.slug}-user", False, "staff", True, 0),
            ("pap-only", False, "staff", False, 0),
            ("disabled", True, "staff", True, 0),
            ("lapsed", False, "staff", True, yesterday),
            ("guest", False, "guests", True, 0),
        ):
            user = self.user(name, sealer, disabled=disabled, group=group, reversible=reversible)
            batch.put_user(self.number, msgspec.structs.replace(user, valid_until=valid_until))

    def user(
        self, name: str, sealer: Sealer, *, disabled: bool = False, group: str = "staff", reversible: bool = True
    ) -> UserRecord:
        """A user with PASSWORD. If `reversible`, the user can also use CHAP and MS-CHAP."""
        sealed = sealer.seal(PASSWORD.encode(), f"user:{self.user_id}") if reversible else b""
        sealed_nt_hash = (
            sealer.seal(compute_nt_hash(PASSWORD).encode(), nt_hash_context(self.user_id)) if reversible else b""
        )
        return UserRecord(self.user_id, name, disabled, (group,), earlier_hash(PASSWORD), sealed, 0, sealed_nt_hash)

    def put_source(self, batch: WriteBatch) -> None:
        """Write an identity source of which the cell knows only its existence."""
        batch.put_identity_source(
            self.number, IdentitySourceRecord(str(uuid.uuid4()), "directory", "ldap", 1, 1, b"{}", b"")
        )

    def mac(self, of_alpha: str) -> str:
        """This tenant's variant of a MAC address of alpha. The other tenant's addresses differ in the second octet."""
        return of_alpha if self.slug == "alpha" else of_alpha.replace("02a0", "02b0", 1)


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
