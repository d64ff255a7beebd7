"""Converts database rows to replica records. The queries are in radius/agent/replica/loader.py."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from nac.cellformat.replica.records import (
    AuthorityRecord,
    CertificateRecord,
    EndpointRecord,
    ExternalStatusRecord,
    IdentitySourceRecord,
    IssuerRecord,
    NasRecord,
    PolicyRecord,
    SecretRecord,
    SiteRecord,
    SlotRecord,
    TrustedAuthority,
    UserRecord,
    mab_password_context,
    nt_hash_context,
    rotation_context,
)
from nac.engine import PolicyErrors, ReplyDictionary, compile_outcome, compile_policy
from pki.signatures import public_key_der

# Function (secret sealed with the master key, encryption context) -> secret sealed with the cell's key.
Reseal = Callable[[bytes, str], bytes]
# Errors that a row with unexpected JSON causes.
UNREADABLE_ERRORS = (ValueError, KeyError, TypeError, AttributeError)

_decode_posture = msgspec.json.Decoder(dict[str, dict[str, Any]]).decode
_decode_attributes = msgspec.json.Decoder(dict[str, object]).decode


class SecretsRow(NamedTuple):
    """A shared secret and, during a rotation, the next secret.

    Both secrets are sealed (encrypted) with the master key, in different encryption contexts.
    """

    sealed: bytes | None
    context: str
    next_sealed: bytes | None
    # Id of the rotation; "" if none is running.
    rotation: str


def secret_records(row: SecretsRow, reseal: Reseal) -> tuple[SecretRecord, ...]:
    """Return the records of the secrets, sealed with the cell's key. Raises SecretsError."""
    if row.sealed is None:
        return ()
    first = SecretRecord(reseal(row.sealed, row.context), row.context)
    if row.next_sealed is None:
        return (first,)
    context = rotation_context(row.rotation)
    return first, SecretRecord(reseal(row.next_sealed, context), context)


def slot_record(
    row: tuple[
        int, str, str, str, str, str, int, int, list[str], list[str], bool, bool, bytes, int, int, int, list[str]
    ],
    secrets: tuple[SecretRecord, ...] = (),
    rotation: str = "",
) -> SlotRecord:
    tenant, tenant_id, slug, status, default_site_id, server_certificate, limit, window_seconds = row[:8]
    methods, tls_versions, own_authorities_only, status_required, cui_key, nat_session_seconds = row[8:14]
    password_limit, password_window_seconds, realms = row[14:]
    # A tenant that is being deleted counts as suspended.
    served = status if status == "active" else "suspended"
    return SlotRecord(
        tenant,
        tenant_id,
        slug,
        served,
        default_site_id,
        server_certificate,
        limit,
        window_seconds,
        tuple(methods),
        tuple(tls_versions),
        own_authorities_only,
        status_required,
        bytes(cui_key),
        nat_session_seconds,
        secrets,
        rotation,
        password_limit,
        password_window_seconds,
        tuple(realms),
    )


def site_record(row: tuple[str, str, str, str | None, bool, str], replies: ReplyDictionary | None) -> SiteRecord:
    """Return the replica record of a site. Raises PolicyErrors for an invalid fallback or time zone."""
    site_id, name, policy_id, fallback, monitor, time_zone = row
    compile_policy({}, time_zone=time_zone)
    if fallback is not None:
        compile_outcome(json.loads(fallback), replies=replies)
    return SiteRecord(site_id, name, policy_id, (fallback or "").encode(), monitor, time_zone)


def policy_record(row: tuple[str, str, int, str], replies: ReplyDictionary | None) -> PolicyRecord:
    """Return the replica record of a policy.

    Raises PolicyErrors if the policy is invalid, because an invalid policy must not reach radiusd's module.
    """
    policy_id, name, version, document = row
    compile_policy(json.loads(document), replies=replies, refuse_unreachable=False)
    return PolicyRecord(policy_id, name, version, document.encode())


class NasRow(NamedTuple):
    nas_id: str
    name: str
    site_id: str
    vendor: str
    behind_nat: bool
    require_message_authenticator: bool
    mab_password: str
    mab_password_sealed: bytes | None
    mab_by_name: bool


def nas_record(row: NasRow, secrets: tuple[SecretRecord, ...], rotation: str, reseal: Reseal) -> NasRecord:
    """Return the replica record of a NAS. Raises SecretsError if the MAB password cannot be decrypted."""
    sealed = row.mab_password_sealed
    return NasRecord(
        row.nas_id,
        row.name,
        row.site_id,
        row.vendor,
        row.behind_nat,
        secrets,
        rotation,
        row.require_message_authenticator,
        row.mab_password,
        b"" if sealed is None else reseal(sealed, mab_password_context(row.nas_id)),
        row.mab_by_name,
    )


class EndpointRow(NamedTuple):
    endpoint_id: str
    name: str
    status: str
    groups: list[str] | None
    valid_until: int
    attributes: str
    vendor: str
    profile: str
    confidence: int
    os: str
    first_seen: int
    rule_groups: list[str] | None
    posture: str
    psk_sealed: bytes | None
    # Context in which `psk_sealed` is sealed.
    psk_context: str


def endpoint_record(row: EndpointRow, reseal: Reseal) -> EndpointRecord:
    """Return the replica record of an endpoint. Raises the errors of `reseal`."""
    return EndpointRecord(
        row.endpoint_id,
        row.name,
        row.status,
        tuple(row.groups or ()),
        row.valid_until,
        {} if row.attributes == "{}" else attribute_texts(_decode_attributes(row.attributes)),
        row.vendor,
        row.profile,
        row.confidence,
        row.os,
        row.first_seen,
        tuple(row.rule_groups or ()),
        {} if row.posture == "{}" else posture_values(_decode_posture(row.posture)),
        *((b"", "") if row.psk_sealed is None else (reseal(row.psk_sealed, row.psk_context), row.psk_context)),
    )


def blocked_endpoint_record(endpoint_id: str, name: str) -> EndpointRecord:
    """Return the record of a blocked endpoint, for an endpoint whose database row is unreadable.

    Without a record, a policy could admit the device as an unknown device.
    """
    return EndpointRecord(endpoint_id, name, "blocked", (), 0, {})


def posture_values(stored: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[bool | int | str, int]]:
    """Convert {name: {"value": ..., "until": epoch seconds (0 for no end), ...}} to the format of `EndpointRecord`.

    Raises one of UNREADABLE_ERRORS for other data.
    """
    return msgspec.convert(
        {name: (each["value"], each["until"]) for name, each in stored.items()},
        dict[str, tuple[bool | int | str, int]],
    )


def attribute_texts(attributes: Mapping[str, object]) -> dict[str, str]:
    """Return the values of an endpoint's attributes as text for policies. Converts values that are not text to JSON.

    Raises one of UNREADABLE_ERRORS if `attributes` is not an object.
    """
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in attributes.items()
    }


def user_record(
    row: tuple[str, str, bool, list[str], str, bytes | None, int, bytes | None], reseal: Reseal
) -> UserRecord:
    user_id, name, disabled, groups, password_hash, sealed, valid_until, sealed_nt_hash = row
    resealed = b"" if sealed is None else reseal(sealed, f"user:{user_id}")
    nt_hash = b"" if sealed_nt_hash is None else reseal(sealed_nt_hash, nt_hash_context(user_id))
    return UserRecord(user_id, name, disabled, tuple(groups), password_hash, resealed, valid_until, nt_hash)


def identity_source_record(
    row: tuple[str, str, str, int, int, str, bytes | None], reseal: Reseal
) -> IdentitySourceRecord:
    source_id, name, kind, position, changed_at, document, sealed = row
    resealed = b"" if sealed is None else reseal(sealed, f"identity-source:{source_id}")
    return IdentitySourceRecord(source_id, name, kind, position, changed_at, document.encode(), resealed)


def certificate_record(row: tuple[str, str, str, str, str]) -> CertificateRecord:
    return CertificateRecord(*row)


class AuthorityRow(NamedTuple):
    authority_id: str
    tenant: int
    subject: str
    own: bool
    revoked: bool
    # None for a root authority.
    issuer_id: str | None
    certificate_der: bytes
    not_after: int
    listed_until: int


def authority_records(rows: Iterable[AuthorityRow]) -> dict[str, AuthorityRecord]:
    """Return a record for each authority name: the tenants that trust an authority with this name, and for each tenant
    whether Admit created the authority.
    """
    trusted: dict[str, dict[int, bool]] = {}
    for row in rows:
        if not row.revoked:
            tenants = trusted.setdefault(row.subject, {})
            tenants[row.tenant] = tenants.get(row.tenant, False) or row.own
    return {subject: AuthorityRecord(tuple(sorted(tenants.items()))) for subject, tenants in trusted.items()}


def issuer_records(rows: Iterable[AuthorityRow]) -> dict[tuple[int, str], IssuerRecord]:
    """Return the records of authorities by tenant number and authority name.

    An authority counts as revoked or expired if an authority above it is revoked or expired.
    """
    by_id = {row.authority_id: row for row in rows}
    found: dict[tuple[int, str], list[TrustedAuthority]] = {}
    for row in by_id.values():
        chain = list(_iter_chain(row, by_id))
        authority = TrustedAuthority(
            row.authority_id,
            public_key_der(row.certificate_der),
            row.own,
            any(each.revoked for each in chain),
            min(each.not_after for each in chain),
            row.listed_until,
        )
        found.setdefault((row.tenant, row.subject), []).append(authority)
    return {
        key: IssuerRecord(tuple(sorted(authorities, key=lambda authority: authority.revoked)))
        for key, authorities in found.items()
    }


def _iter_chain(row: AuthorityRow, by_id: Mapping[str, AuthorityRow]) -> Iterator[AuthorityRow]:
    seen = set()
    current: AuthorityRow | None = row
    while current is not None and current.authority_id not in seen:
        yield current
        seen.add(current.authority_id)
        current = by_id.get(current.issuer_id) if current.issuer_id else None


def external_status_record(row: tuple[bool, int]) -> ExternalStatusRecord:
    return ExternalStatusRecord(*row)


def summarise_mistakes(errors: PolicyErrors) -> str:
    """Return the first three mistakes as the text of an alarm."""
    first = "; ".join(str(mistake) for mistake in errors.mistakes[:3])
    more = len(errors.mistakes) - 3
    return f"{first}; and {more} more" if more > 0 else first
