"""What a cell knows: the records of its LMDB replica, defined once for writer (agent) and reader (module).

A record is the msgpack of one of these structs. Fields are only ever appended, with a default, so that a module may
read what a newer agent wrote; any other change raises `FORMAT`, on which the agent rebuilds the file.

Databases (LMDB named databases) and their keys; integers are big-endian, `tenant` is the tenant's number:

=============  =========================================  ======================
database       key                                        record
=============  =========================================  ======================
meta           b"format" b"cell" b"position" b"complete"  text
slots          u16 slot                                   SlotRecord
sites          u32 tenant, 16 bytes site id               SiteRecord
policies       u32 tenant, 16 bytes policy id             PolicyRecord
nases          u32 tenant, b"i" identifier                NasRecord
               u32 tenant, b"a" 4 or 16 bytes address     NasRecord
endpoints      u32 tenant, 6 bytes MAC                    EndpointRecord
users          u32 tenant, case-folded name               UserRecord
certificates   u32 tenant, serial without leading zeros   CertificateRecord
sources        u32 tenant, 16 bytes source id             IdentitySourceRecord
authorities    16 bytes: `authority_key` of the name      AuthorityRecord
issuers        u32 tenant, `authority_key` of the name    IssuerRecord
statuses       u32 tenant, 16 bytes authority id, serial  ExternalStatusRecord
               without leading zeros
session_counts u32 tenant, b"m" 12 hex digits or          SessionCountRecord
               b"u" name in lower case
pools          u32 tenant, 16 bytes site id (zero: of     PoolRecord
               the whole tenant), name
pool_stocks    u32 tenant, 16 bytes pool id               PoolStockRecord
pool_leases    u32 tenant, 16 bytes pool id, 6 bytes MAC  PoolLeaseRecord
=============  =========================================  ======================
"""

import hashlib

import msgspec

from nac.methods import DEFAULT_METHODS, DEFAULT_TLS_VERSIONS

FORMAT = 5
DATABASES = (
    "meta",
    "slots",
    "sites",
    "policies",
    "nases",
    "endpoints",
    "users",
    "certificates",
    "sources",
    "authorities",
    "issuers",
    "statuses",
    "session_counts",
    "pools",
    "pool_stocks",
    "pool_leases",
)
# How the hash of a password in PHC form begins: $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash> (RFC 9106).
ARGON2ID = "$argon2id$"
# LMDB refuses keys beyond 511 bytes; names longer than this are no key, so they are looked up as unknown.
MAX_NAME_BYTES = 480


class Record(msgspec.Struct, frozen=True, array_like=True):
    pass


class SecretRecord(Record, frozen=True, array_like=True):
    """What a NAS and radiusd share, under the cell's key."""

    sealed: bytes
    context: str


def rotation_context(rotation_id: object) -> str:
    """What the next secret of a rotation is sealed for."""
    return f"secret-rotation:{rotation_id}"


class SlotRecord(Record, frozen=True, array_like=True):
    tenant: int
    tenant_id: str
    slug: str
    # active | suspended
    status: str
    # Site of a NAS that is not registered; "" where the tenant has none: such requests are denied.
    default_site_id: str
    # Serial (hex) of the EAP server certificate to present; "" where none is live.
    server_certificate: str
    # Failures per (NAS, MAC) within the window after which requests are rejected unheard.
    failure_limit: int
    failure_window_seconds: int
    # Offered, as nac.methods names them.
    methods: tuple[str, ...] = DEFAULT_METHODS
    tls_versions: tuple[str, ...] = DEFAULT_TLS_VERSIONS
    # No authority but those that Admit made was ever trusted here.
    own_authorities_only: bool = False
    # Certificates of external authorities are refused while no fresh status of them is known.
    status_required: bool = False
    # Makes the tenant's Chargeable-User-Identities; b"" where none are given out.
    cui_key: bytes = b""
    # Session-Timeout at NASes behind NAT; 0 for none.
    nat_session_seconds: int = 0
    # In force, and while they change over the one that is to come.
    secrets: tuple[SecretRecord, ...] = ()
    # Id of the rotation that is under way, "" for none.
    rotation: str = ""
    # Wrong passwords per user name within the window after which that user's logins are rejected unheard.
    password_failure_limit: int = 20
    password_failure_window_seconds: int = 900
    # Realms and NetBIOS domains that are taken off user names, in lower case.
    realms: tuple[str, ...] = ()


class SiteRecord(Record, frozen=True, array_like=True):
    site_id: str
    name: str
    # "" where the site has no policy: deny.
    policy_id: str
    # JSON of the site's own fallback outcome, b"" to use the policy's.
    fallback: bytes = b""
    # Monitor mode: the verdict is logged, the fallback admits.
    monitor: bool = False
    # IANA name; times of day in a policy are of this zone.
    time_zone: str = "UTC"


class PolicyRecord(Record, frozen=True, array_like=True):
    policy_id: str
    name: str
    version: int
    # JSON of the published document, as `nac.engine.compile_policy` takes it.
    document: bytes


class NasRecord(Record, frozen=True, array_like=True):
    nas_id: str
    name: str
    site_id: str
    vendor: str
    behind_nat: bool = False
    # As those of the slot; none where the NAS has the tenant's.
    secrets: tuple[SecretRecord, ...] = ()
    rotation: str = ""
    require_message_authenticator: bool = True
    # What it sends as the password of a MAC address: mac | fixed | secret | empty (nac.nases.mab).
    mab_password: str = "mac"  # noqa: S105 -- a form
    # The fixed text, sealed with the cell's key for `mab_password_context`; b"" where there is none.
    sealed_mab_password: bytes = b""
    # A request without Calling-Station-Id and Service-Type is of the device whose MAC address is its name.
    mab_by_name: bool = False


def mab_password_context(nas_id: object) -> str:
    """What the fixed text of a NAS is sealed for."""
    return f"nas-mab-password:{nas_id}"


class EndpointRecord(Record, frozen=True, array_like=True):
    endpoint_id: str
    name: str
    # active | blocked | discovered | ignored; the last two are of devices that nobody has approved
    status: str
    # Those that people put it into; of no meaning unless it is approved.
    groups: tuple[str, ...]
    # Approval ends, epoch seconds; 0 means never.
    valid_until: int
    attributes: dict[str, str]
    # What was found out about the device; it holds whether the device is approved or not.
    vendor: str = ""
    profile: str = ""
    # 0 to 100; 100 where a person said so.
    confidence: int = 0
    os: str = ""
    # Epoch seconds; 0 where it was never seen.
    first_seen: int = 0
    # Groups by rule.
    rule_groups: tuple[str, ...] = ()
    # By the name that conditions use: value, and the epoch seconds when it becomes stale (0 never).
    posture: dict[str, tuple[bool | int | str, int]] = {}
    # Passphrase of its own or of its group, sealed with the cell's key for `psk_context`; b"" where there is none.
    sealed_psk: bytes = b""
    psk_context: str = ""


class UserRecord(Record, frozen=True, array_like=True):
    user_id: str
    name: str
    disabled: bool
    groups: tuple[str, ...]
    # Argon2id in PHC form ("$argon2id$..."), which the verifier checks; of earlier versions rlm_pap's PBKDF2-Password,
    # "HMACSHA2+512:<b64 u32 iterations>:<b64 salt>:<b64 hash>".
    password_hash: str
    # For CHAP alone: the password sealed with the cell's key, b"" where the user may not use CHAP.
    sealed_password: bytes
    valid_until: int
    # For MS-CHAP alone: 32 hex digits of MD4(password), sealed with the cell's key, b"" where the user may not use it.
    sealed_nt_hash: bytes = b""

    def is_disabled_or_expired(self, now_seconds: int) -> bool:
        """Blocked, or past its end."""
        return self.disabled or 0 < self.valid_until <= now_seconds


def nt_hash_context(user_id: object) -> str:
    """What an NT hash is sealed with: not as the password is, so that neither opens in the other's place."""
    return f"user-nt-hash:{user_id}"


class CertificateRecord(Record, frozen=True, array_like=True):
    certificate_id: str
    # valid | suspended | revoked
    status: str
    profile: str
    common_name: str
    # RFC 5280 5.3.1 reason, "" while valid.
    revocation_reason: str


class IdentitySourceRecord(Record, frozen=True, array_like=True):
    """A directory or provider that knows users; only those that are switched on are here."""

    source_id: str
    name: str
    # ldap | oidc
    kind: str
    # Sources are asked by position, then name.
    position: int
    # Epoch microseconds of the last change: what was remembered of it before is forgotten.
    changed_at: int
    # JSON, as nac.identities.settings reads it.
    document: bytes
    # Its bind password or client secret under the cell's key, b"" where it has none.
    sealed_secret: bytes


class SessionCountRecord(Record, frozen=True, array_like=True):
    # How many sessions of the device or name are live; at least one.
    live: int


class PoolRecord(Record, frozen=True, array_like=True):
    pool_id: str
    # nac.pools.extent.PoolKind
    kind: str
    # deny | without
    when_empty: str
    # Name of the file of claims (nac.pools.claims); "" where there is none yet.
    claims: str
    # Another one whenever the stock is.
    stocked_at: int


class PoolStockRecord(Record, frozen=True, array_like=True):
    """What is ready for devices that have no address yet."""

    # Whose key in `pools` the pool has; "" for the whole tenant.
    site_id: str
    name: str
    # (number, grant, address), in the order in which they are to be given.
    ready: tuple[tuple[int, int, str], ...]


class PoolLeaseRecord(Record, frozen=True, array_like=True):
    """The address that a device has, had last, or is to have."""

    number: int
    grant: int
    address: str
    # It had it last, and any other device may have taken it since.
    ready: bool = False


class AuthorityRecord(Record, frozen=True, array_like=True):
    # Every tenant of this cell that trusts an authority of this name: (tenant number, we issue its certificates).
    trusted_by: tuple[tuple[int, bool], ...]


class TrustedAuthority(Record, frozen=True, array_like=True):
    """One of the authorities of a name that a tenant trusts, or trusted until it was revoked."""

    authority_id: str
    # SubjectPublicKeyInfo (RFC 5280 4.1.2.7): what a certificate must be signed with.
    public_key: bytes
    # Whether we issue its certificates.
    own: bool
    # It, or an authority above it, was revoked.
    revoked: bool
    # Epoch seconds: the first end among it and the authorities above it.
    not_after: int
    # Epoch seconds: until then the revoked serials in `statuses` are all there are; 0 where no list was ever read.
    listed_until: int = 0


class IssuerRecord(Record, frozen=True, array_like=True):
    """Several where an authority was renewed with another key."""

    authorities: tuple[TrustedAuthority, ...]


class ExternalStatusRecord(Record, frozen=True, array_like=True):
    """What an external authority says of one certificate."""

    revoked: bool
    # Epoch seconds; a revocation holds for ever, whatever stands here.
    until: int


def authority_key(issuer: str) -> bytes:
    """Key of an authority by its name in OpenSSL's one-line form ("/O=Alpha/CN=Alpha CA"), as radiusd reports it."""
    return hashlib.sha256(issuer.encode("utf-8", "surrogateescape")).digest()[:16]
