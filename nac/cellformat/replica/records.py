"""Records of a cell's LMDB replica, for the writer (agent) and the reader (module).

A record is the msgpack of one of these structs. New fields must be at the end and have a default, so that a module
can read records of a newer agent. Any other change needs a new `FORMAT`, and the agent then rebuilds the file.

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
pools          u32 tenant, 16 bytes site id (zero for     PoolRecord
               the whole tenant), name
pool_stocks    u32 tenant, 16 bytes pool id               PoolStockRecord
pool_leases    u32 tenant, 16 bytes pool id, 6 bytes MAC  PoolLeaseRecord
=============  =========================================  ======================
"""

import hashlib

import msgspec

from nac.cellformat.methods import DEFAULT_METHODS, DEFAULT_TLS_VERSIONS

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
# Prefix of password hashes in PHC format: $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash> (RFC 9106).
ARGON2ID = "$argon2id$"
# LMDB keys have at most 511 bytes. Longer names count as unknown.
MAX_NAME_BYTES = 480


class Record(msgspec.Struct, frozen=True, array_like=True):
    pass


class SecretRecord(Record, frozen=True, array_like=True):
    """A shared secret of NAS and radiusd, sealed with the cell's key."""

    sealed: bytes
    context: str


def rotation_context(rotation_id: object) -> str:
    """Return the context in which the next secret of a rotation is sealed."""
    return f"secret-rotation:{rotation_id}"


class SlotRecord(Record, frozen=True, array_like=True):
    tenant: int
    tenant_id: str
    slug: str
    # active | suspended
    status: str
    # Site of unregistered NASes; "" if there is none: their requests are denied.
    default_site_id: str
    # Serial (hex) of the EAP server certificate; "" if none is live.
    server_certificate: str
    # Failures per (NAS, MAC) within the window, after which requests are rejected unprocessed.
    failure_limit: int
    failure_window_seconds: int
    # Names of offered methods (nac.cellformat.methods).
    methods: tuple[str, ...] = DEFAULT_METHODS
    tls_versions: tuple[str, ...] = DEFAULT_TLS_VERSIONS
    # The tenant has never trusted an external authority.
    own_authorities_only: bool = False
    # Reject external certificates without a fresh status.
    status_required: bool = False
    # Key of Chargeable-User-Identities; b"" if they are not sent.
    cui_key: bytes = b""
    # Session-Timeout at NASes behind NAT; 0 for none.
    nat_session_seconds: int = 0
    # The current secret, and the next one during a rotation.
    secrets: tuple[SecretRecord, ...] = ()
    # Id of the running rotation; "" for none.
    rotation: str = ""
    # Wrong passwords per user name within the window, after which the user's logins are rejected unprocessed.
    password_failure_limit: int = 20
    password_failure_window_seconds: int = 900
    # Realms and NetBIOS domains removed from user names, in lower case.
    realms: tuple[str, ...] = ()


class SiteRecord(Record, frozen=True, array_like=True):
    site_id: str
    name: str
    # "" without a policy: deny.
    policy_id: str
    # JSON of the site's own fallback; b"" for the policy's.
    fallback: bytes = b""
    # Monitor mode: the verdict is only logged, and the fallback admits.
    monitor: bool = False
    # IANA name; times of day in a policy are in this zone.
    time_zone: str = "UTC"


class PolicyRecord(Record, frozen=True, array_like=True):
    policy_id: str
    name: str
    version: int
    # JSON of the published document, for `nac.engine.compile_policy`.
    document: bytes


class NasRecord(Record, frozen=True, array_like=True):
    nas_id: str
    name: str
    site_id: str
    vendor: str
    behind_nat: bool = False
    # Like those of the slot; empty if the NAS uses the tenant's.
    secrets: tuple[SecretRecord, ...] = ()
    rotation: str = ""
    require_message_authenticator: bool = True
    # Form of the MAB password: mac | fixed | secret | empty (nac.tenancy.nases.mab).
    mab_password: str = "mac"  # noqa: S105 -- a form
    # The fixed text, sealed with the cell's key in `mab_password_context`; b"" for none.
    sealed_mab_password: bytes = b""
    # A request without Calling-Station-Id and Service-Type is about the MAC address in User-Name.
    mab_by_name: bool = False


def mab_password_context(nas_id: object) -> str:
    """Return the context in which the fixed text is sealed."""
    return f"nas-mab-password:{nas_id}"


class EndpointRecord(Record, frozen=True, array_like=True):
    endpoint_id: str
    name: str
    # active | blocked | discovered | ignored; the last two are not approved
    status: str
    # Groups set by people; ignored unless approved.
    groups: tuple[str, ...]
    # End of the approval in epoch seconds; 0 means never.
    valid_until: int
    attributes: dict[str, str]
    # Detected properties, valid for unapproved devices, too.
    vendor: str = ""
    profile: str = ""
    # 0 to 100; 100 if set by a person.
    confidence: int = 0
    os: str = ""
    # Epoch seconds; 0 if never seen.
    first_seen: int = 0
    # Groups by rule.
    rule_groups: tuple[str, ...] = ()
    # By name in conditions: value, and expiry in epoch seconds (0 for never).
    posture: dict[str, tuple[bool | int | str, int]] = {}
    # Own or group passphrase, sealed with the cell's key in `psk_context`; b"" for none.
    sealed_psk: bytes = b""
    psk_context: str = ""


class UserRecord(Record, frozen=True, array_like=True):
    user_id: str
    name: str
    disabled: bool
    groups: tuple[str, ...]
    # Argon2id in PHC format ("$argon2id$..."), checked by the verifier. Earlier versions: rlm_pap's PBKDF2-Password,
    # "HMACSHA2+512:<b64 u32 iterations>:<b64 salt>:<b64 hash>".
    password_hash: str
    # Only for CHAP: the password sealed with the cell's key; b"" if the user cannot use CHAP.
    sealed_password: bytes
    valid_until: int
    # Only for MS-CHAP: 32 hex digits of MD4(password), sealed with the cell's key; b"" if the user cannot use it.
    sealed_nt_hash: bytes = b""


def nt_hash_context(user_id: object) -> str:
    """Return the sealing context of an NT hash, which differs from the password's, so that they cannot be exchanged."""
    return f"user-nt-hash:{user_id}"


class CertificateRecord(Record, frozen=True, array_like=True):
    certificate_id: str
    # valid | suspended | revoked
    status: str
    profile: str
    common_name: str
    # RFC 5280 5.3.1 reason; "" while valid.
    revocation_reason: str


class IdentitySourceRecord(Record, frozen=True, array_like=True):
    """A directory or provider that knows users. Only enabled ones have records."""

    source_id: str
    name: str
    # ldap | oidc
    kind: str
    # Order of queries; then by name.
    position: int
    # Epoch microseconds of the last change, which invalidates older cached results.
    changed_at: int
    # JSON in the format of nac.inventory.identity_sources.settings.
    document: bytes
    # Bind password or client secret, sealed with the cell's key; b"" for none.
    sealed_secret: bytes


class SessionCountRecord(Record, frozen=True, array_like=True):
    # Number of live sessions of the device or name; at least one.
    live: int


class PoolRecord(Record, frozen=True, array_like=True):
    pool_id: str
    # nac.pools.extent.PoolKind
    kind: str
    # deny | without
    when_empty: str
    # Name of the claims file (nac.pools.claims); "" if it does not exist yet.
    claims: str
    # Changes with the stock.
    stocked_at: int


class PoolStockRecord(Record, frozen=True, array_like=True):
    """Ready addresses for devices that have none."""

    # Site in the pool's key in `pools`; "" for the whole tenant.
    site_id: str
    name: str
    # (number, grant, address), in the order of use.
    ready: tuple[tuple[int, int, str], ...]


class PoolLeaseRecord(Record, frozen=True, array_like=True):
    """The current, last or reserved address of a device."""

    number: int
    grant: int
    address: str
    # It was the last address, and another device may have it now.
    ready: bool = False


class AuthorityRecord(Record, frozen=True, array_like=True):
    # Tenants of this cell that trust an authority of this name: (tenant number, whether it is their own).
    trusted_by: tuple[tuple[int, bool], ...]


class TrustedAuthority(Record, frozen=True, array_like=True):
    """An authority that a tenant trusts, or trusted before its revocation."""

    authority_id: str
    # SubjectPublicKeyInfo (RFC 5280 4.1.2.7) that must have signed a certificate.
    public_key: bytes
    # Whether it is the tenant's own.
    own: bool
    # It, or an authority above it, was revoked.
    revoked: bool
    # Epoch seconds: the first expiry among it and the authorities above it.
    not_after: int
    # Epoch seconds until which the revoked serials in `statuses` are complete; 0 if no list was ever read.
    listed_until: int = 0


class IssuerRecord(Record, frozen=True, array_like=True):
    """The authorities of a name; several after a renewal with another key."""

    authorities: tuple[TrustedAuthority, ...]


class ExternalStatusRecord(Record, frozen=True, array_like=True):
    """Status of a certificate of an external authority."""

    revoked: bool
    # Epoch seconds; ignored for a revocation, which is final.
    until: int


def authority_key(issuer: str) -> bytes:
    """Return the key of an authority's name in OpenSSL's one-line form ("/O=Alpha/CN=Alpha CA"), as reported by
    radiusd.
    """
    return hashlib.sha256(issuer.encode("utf-8", "surrogateescape")).digest()[:16]
