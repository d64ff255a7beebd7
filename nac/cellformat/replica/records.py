"""Records of a cell's LMDB replica. The agent writes the records, and radiusd's module reads them.

A record is the msgpack of one of the structs in this module. New fields must be at the end and have a default, so
that a module can read records of a newer agent. Any change except new fields at the end needs a new `FORMAT`. The
agent then rebuilds the file.

LMDB databases and their keys; integers are big-endian, `tenant` is the tenant's number:

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
# LMDB keys have at most 511 bytes. A longer name counts as unknown.
MAX_NAME_BYTES = 480


class Record(msgspec.Struct, frozen=True, array_like=True):
    pass


class SecretRecord(Record, frozen=True, array_like=True):
    """A shared secret of NASes and radiusd, sealed with the cell's key."""

    sealed: bytes
    context: str


def rotation_context(rotation_id: object) -> str:
    """Return the encryption context of the next secret of this rotation."""
    return f"secret-rotation:{rotation_id}"


class SlotRecord(Record, frozen=True, array_like=True):
    tenant: int
    tenant_id: str
    slug: str
    # active | suspended
    status: str
    # Id of the site for requests of unregistered NASes; if "", Admit denies these requests.
    default_site_id: str
    # Serial (hex) of the EAP server certificate; "" if the tenant has none.
    server_certificate: str
    # Maximum number of failed logins per NAS and MAC address within `failure_window_seconds`. Admit rejects further
    # logins without a check.
    failure_limit: int
    failure_window_seconds: int
    # Names of offered methods (nac.cellformat.methods).
    methods: tuple[str, ...] = DEFAULT_METHODS
    tls_versions: tuple[str, ...] = DEFAULT_TLS_VERSIONS
    # Whether the tenant has never trusted an external authority.
    own_authorities_only: bool = False
    # Whether to reject certificates of external authorities without a recent status.
    status_required: bool = False
    # Key for values of Chargeable-User-Identity; b"" if Admit does not send this attribute.
    cui_key: bytes = b""
    # Session-Timeout in seconds at NASes behind NAT; 0 for none.
    nat_session_seconds: int = 0
    # The current secret and, during a rotation, the next secret.
    secrets: tuple[SecretRecord, ...] = ()
    # Id of the running rotation; "" if none is running.
    rotation: str = ""
    # Maximum number of wrong passwords per user name within `password_failure_window_seconds`. Admit rejects further
    # logins without a check.
    password_failure_limit: int = 20
    password_failure_window_seconds: int = 900
    # Realms and NetBIOS domains to remove from user names, in lower case.
    realms: tuple[str, ...] = ()


class SiteRecord(Record, frozen=True, array_like=True):
    site_id: str
    name: str
    # "" if the site has no policy. Then all requests of the site are denied.
    policy_id: str
    # JSON of the site's own fallback; b"" to use the policy's fallback.
    fallback: bytes = b""
    # Whether the site is in monitor mode: the verdict is only logged, and the fallback applies.
    monitor: bool = False
    # IANA name of the time zone for times of day in a policy.
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
    # Like SlotRecord.secrets; empty if the NAS uses the secrets of the tenant.
    secrets: tuple[SecretRecord, ...] = ()
    rotation: str = ""
    require_message_authenticator: bool = True
    # Form of the MAB password: mac | fixed | secret | empty (nac.tenancy.nases.mab).
    mab_password: str = "mac"  # noqa: S105 -- a form
    # The fixed MAB password, sealed with the cell's key in `mab_password_context`; b"" for none.
    sealed_mab_password: bytes = b""
    # Whether User-Name is the MAC address if a request has neither Calling-Station-Id nor Service-Type.
    mab_by_name: bool = False


def mab_password_context(nas_id: object) -> str:
    """Return the encryption context of the fixed MAB password of a NAS."""
    return f"nas-mab-password:{nas_id}"


class EndpointRecord(Record, frozen=True, array_like=True):
    endpoint_id: str
    name: str
    # active | blocked | discovered | ignored. Discovered and ignored endpoints are not approved.
    status: str
    # Groups to which people assigned the endpoint. Policies use these groups only if the endpoint is approved.
    groups: tuple[str, ...]
    # End of the approval in epoch seconds; 0 for no end.
    valid_until: int
    attributes: dict[str, str]
    # Detected properties, which policies also use for unapproved devices.
    vendor: str = ""
    profile: str = ""
    # Confidence of the profile, 0 to 100; 100 if a person set the profile.
    confidence: int = 0
    os: str = ""
    # Epoch seconds; 0 if never seen.
    first_seen: int = 0
    # Groups to which rules assigned the endpoint.
    rule_groups: tuple[str, ...] = ()
    # Policy attribute -> (value, end of validity in epoch seconds or 0 for no end).
    posture: dict[str, tuple[bool | int | str, int]] = {}
    # Passphrase of the endpoint or its group, sealed with the cell's key in `psk_context`; b"" for none.
    sealed_psk: bytes = b""
    psk_context: str = ""


class UserRecord(Record, frozen=True, array_like=True):
    user_id: str
    name: str
    disabled: bool
    groups: tuple[str, ...]
    # Argon2id in PHC format ("$argon2id$..."), which the verifier checks. Records of earlier versions: rlm_pap's
    # PBKDF2-Password, "HMACSHA2+512:<b64 u32 iterations>:<b64 salt>:<b64 hash>".
    password_hash: str
    # Only for CHAP: the password, sealed with the cell's key; b"" if the user cannot use CHAP.
    sealed_password: bytes
    valid_until: int
    # Only for MS-CHAP: MD4(password) in 32 hex digits, sealed with the cell's key; b"" if the user cannot use MS-CHAP.
    sealed_nt_hash: bytes = b""


def nt_hash_context(user_id: object) -> str:
    """Return the encryption context of a user's NT hash.

    The password has another context. Therefore nobody can replace an encrypted password by an encrypted hash.
    """
    return f"user-nt-hash:{user_id}"


class CertificateRecord(Record, frozen=True, array_like=True):
    certificate_id: str
    # valid | suspended | revoked
    status: str
    profile: str
    common_name: str
    # Revocation reason of RFC 5280 5.3.1; "" if the certificate is valid.
    revocation_reason: str


class IdentitySourceRecord(Record, frozen=True, array_like=True):
    """A directory or provider that verifies users. Only enabled identity sources have records."""

    source_id: str
    name: str
    # ldap | oidc
    kind: str
    # Sources are queried by increasing position, then by name.
    position: int
    # Epoch microseconds of the last change. Earlier cached results are invalid.
    changed_at: int
    # JSON in the format of nac.inventory.identity_sources.settings.
    document: bytes
    # Bind password or client secret, sealed with the cell's key; b"" for none.
    sealed_secret: bytes


class SessionCountRecord(Record, frozen=True, array_like=True):
    # Number of live sessions of the device or user name; at least one.
    live: int


class PoolRecord(Record, frozen=True, array_like=True):
    pool_id: str
    # nac.pools.extent.PoolKind
    kind: str
    # Reaction to an empty pool: deny | without (admit without an address).
    when_empty: str
    # Name of the claims file (nac.pools.claims); "" if it does not exist yet.
    claims: str
    # Time of the last change of the pool's stock in epoch microseconds.
    stocked_at: int


class PoolStockRecord(Record, frozen=True, array_like=True):
    """Addresses of a pool that the cell can assign to devices that have no address in this pool yet."""

    # Id of the pool's site, as in the key of the database `pools`; "" for the whole tenant.
    site_id: str
    name: str
    # (number in the pool, number of the grant, address), in the order of use.
    ready: tuple[tuple[int, int, str], ...]


class PoolLeaseRecord(Record, frozen=True, array_like=True):
    """The current, last or reserved address of a device in a pool."""

    number: int
    grant: int
    address: str
    # Whether this was the device's last address, which the cell can assign to another device.
    ready: bool = False


class AuthorityRecord(Record, frozen=True, array_like=True):
    # Tenants of this cell that trust an authority of this name: (tenant number, whether the authority is their own).
    trusted_by: tuple[tuple[int, bool], ...]


class TrustedAuthority(Record, frozen=True, array_like=True):
    """An authority that a tenant trusts, or trusted until its revocation."""

    authority_id: str
    # SubjectPublicKeyInfo (RFC 5280 4.1.2.7) of the key that must have signed a certificate.
    public_key: bytes
    # Whether Admit created the authority for the tenant.
    own: bool
    # Whether this authority, or an authority above it, was revoked.
    revoked: bool
    # Epoch seconds: the earliest expiry of this authority and the authorities above it.
    not_after: int
    # Epoch seconds until which the revoked serials in `statuses` are complete; 0 if no revocation list was ever read.
    listed_until: int = 0


class IssuerRecord(Record, frozen=True, array_like=True):
    """All authorities that a tenant trusts and that have the same name.

    Several authorities have the same name after a renewal with another key.
    """

    authorities: tuple[TrustedAuthority, ...]


class ExternalStatusRecord(Record, frozen=True, array_like=True):
    """Status of a certificate of an external authority."""

    revoked: bool
    # End of the status in epoch seconds. Ignored if the certificate is revoked, because a revocation is final.
    until: int


def authority_key(issuer: str) -> bytes:
    """Return the key of an authority's name.

    `issuer` has OpenSSL's one-line form ("/O=Alpha/CN=Alpha CA"), as reported by radiusd.
    """
    return hashlib.sha256(issuer.encode("utf-8", "surrogateescape")).digest()[:16]
