"""Queries for the rows of each tenant. Converts the rows to records and writes them to the cell's replica.

All queries run in the caller's REPEATABLE READ transaction. Row-level security limits the queries to the cell's
tenants.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from ipaddress import ip_address
from typing import NamedTuple

import psycopg

from nac.cellformat.replica import keys
from nac.cellformat.replica import record_builder as compiling
from nac.cellformat.replica.record_builder import Reseal
from nac.cellformat.replica.records import SecretRecord, SlotRecord
from nac.cellformat.replica.writer import WriteBatch
from nac.engine import PolicyErrors, ReplyDictionary
from nac.kit.ids import CellId
from nac.kit.mac import display_mac
from nac.kit.secrets import SecretsError
from radius.agent.alarms import Alarms
from radius.agent.replica import pools
from radius.agent.replica.pools import ClaimsFileLookup, no_claims_file
from radius.agent.replica.stand_ins import CELL_WIDE_ERRORS, STAND_INS, Row, display_key

_log = logging.getLogger(__name__)
SERVER_PROFILE = "eap-server"
FETCH_ROWS = 5_000
# Number of passphrases in the cache, 300 bytes each.
MAX_RESEALED = 1_000

_SLOTS = """
SELECT s.number, t.number, t.id::text, t.slug, t.status, coalesce(t.default_site_id::text, ''), coalesce((
    SELECT encode(c.serial, 'hex') FROM certificates c
    WHERE c.tenant_id = t.id AND c.profile = %(profile)s AND c.status = 'valid' AND c.not_after > now()
        AND c.key_sealed IS NOT NULL
    ORDER BY coalesce(c.present_from, c.not_before) <= now() DESC, coalesce(c.present_from, c.not_before) DESC,
        c.not_before DESC, c.created_at DESC LIMIT 1
), ''), t.failure_limit, t.failure_window_seconds, t.methods, t.tls_versions,
NOT t.trusts_external, t.status_failure = 'hard', uuid_send(t.cui_key), t.nat_session_seconds,
t.password_failure_limit, t.password_failure_window_seconds, t.realms,
s.secret_sealed, 'slot:' || s.id, r.next_sealed, coalesce(r.id::text, '')
FROM slots s JOIN tenants t ON t.id = s.tenant_id
LEFT JOIN secret_rotations r ON r.tenant_id = t.id AND r.nas_id IS NULL AND r.state = 'running'
WHERE s.cell_id = %(cell)s
"""
_AUTHORITIES = """
SELECT a.id::text, t.number, a.subject, a.kind <> 'external', a.status = 'revoked', a.issuer_id::text,
    a.certificate_der, floor(extract(epoch FROM a.not_after))::bigint,
    coalesce(floor(extract(epoch FROM s.crl_next_update))::bigint, 0)
FROM certificate_authorities a JOIN tenants t ON t.id = a.tenant_id
LEFT JOIN status_sources s ON s.tenant_id = a.tenant_id AND s.authority_id = a.id
ORDER BY a.not_before DESC, a.id
"""
_SITES = """
SELECT id::text, name, coalesce(policy_id::text, ''), fallback::text, monitor, time_zone
FROM sites WHERE tenant_id = %(tenant)s
"""
_POLICIES = """
SELECT p.id::text, p.name, v.number,
    CASE jsonb_typeof(v.document) WHEN 'object' THEN v.document - 'tests' ELSE v.document END::text
FROM policies p
JOIN policy_versions v ON v.policy_id = p.id AND v.tenant_id = p.tenant_id AND v.number = p.published_version
WHERE p.tenant_id = %(tenant)s
"""
_NASES = """
SELECT n.id::text, n.name, n.site_id::text, n.vendor, n.behind_nat, n.require_message_authenticator,
    n.mab_password, n.mab_password_sealed, n.mab_by_name, coalesce(n.identifier, ''), coalesce(host(n.address), ''),
    n.secret_sealed, 'nas:' || n.id, r.next_sealed, coalesce(r.id::text, '')
FROM nases n LEFT JOIN secret_rotations r ON r.nas_id = n.id AND r.state = 'running'
WHERE n.tenant_id = %(tenant)s
"""
_ENDPOINTS = """
SELECT replace(e.mac::text, ':', ''), e.id::text, e.name, e.status, of.named,
CASE WHEN isfinite(e.valid_until) THEN floor(extract(epoch FROM e.valid_until))::bigint ELSE 0 END,
e.attributes::text, e.vendor, coalesce(nullif(e.set_profile, ''), e.found_profile),
CASE e.set_profile WHEN '' THEN e.found_confidence ELSE 100 END, e.os,
coalesce(floor(extract(epoch FROM e.first_seen_at))::bigint, 0), of.ruled, e.posture::text,
coalesce(e.psk_sealed, shared.psk_sealed),
CASE WHEN e.psk_sealed IS NULL THEN 'endpoint-group-psk:' || shared.id ELSE 'endpoint-psk:' || e.id END
FROM endpoints e CROSS JOIN LATERAL (
    SELECT array_agg(g.name ORDER BY g.name) FILTER (WHERE g.rule IS NULL) AS named,
        array_agg(g.name ORDER BY g.name) FILTER (WHERE g.rule IS NOT NULL) AS ruled,
        (array_agg(g.id ORDER BY g.name) FILTER (WHERE g.psk_sealed IS NOT NULL))[1] AS psk_group
    FROM endpoint_group_members m JOIN endpoint_groups g ON g.id = m.group_id
    WHERE m.endpoint_id = e.id
) of LEFT JOIN endpoint_groups shared ON shared.id = of.psk_group
WHERE e.tenant_id = %(tenant)s
"""
_USERS = """
SELECT u.id::text, u.name, u.disabled, ARRAY(
    SELECT g.name FROM user_group_members m JOIN user_groups g ON g.id = m.group_id
    WHERE m.user_id = u.id ORDER BY g.name
), u.password_hash, u.password_sealed,
CASE WHEN isfinite(u.valid_until) THEN floor(extract(epoch FROM u.valid_until))::bigint ELSE 0 END,
u.nt_hash_sealed
FROM users u WHERE u.tenant_id = %(tenant)s
"""
_SOURCES = """
SELECT id::text, name, kind, position, (extract(epoch FROM updated_at) * 1000000)::bigint, settings::text, secret_sealed
FROM identity_sources WHERE tenant_id = %(tenant)s AND enabled
"""
_CERTIFICATES = """
SELECT encode(serial, 'hex'), id::text, status, profile, common_name, revocation_reason
FROM certificates WHERE tenant_id = %(tenant)s AND status NOT IN ('intended', 'abandoned')
"""
_STATUSES = """
SELECT authority_id::text, encode(serial, 'hex'), listed OR answer = 'revoked',
    coalesce(floor(extract(epoch FROM until))::bigint, 0)
FROM external_statuses WHERE tenant_id = %(tenant)s
"""
_HAS_SERVER = """
SELECT EXISTS (
    SELECT FROM certificates
    WHERE tenant_id = %s AND profile = %s AND serial = ANY (SELECT decode(hex, 'hex') FROM unnest(%s::text[]) hex)
)
"""


class TenantKey(NamedTuple):
    number: int
    id: str


class ReplicaLoader:
    """Writes the rows of each kind of object into a write batch of the replica."""

    def __init__(
        self,
        cell_id: CellId,
        *,
        replies: ReplyDictionary | None,
        reseal: Reseal,
        alarms: Alarms,
        claims_of: ClaimsFileLookup = no_claims_file,
    ) -> None:
        self.replies = replies
        self._cell_id = cell_id
        self._reseal = reseal
        self._alarms = alarms
        self._claims_of = claims_of
        self._resealed: dict[tuple[bytes, str], bytes] = {}
        # Codes of alarms by tenant, then by kind (noun) and key of the row. Used to clear the alarms of a row or of a
        # tenant.
        self._alarmed: dict[int, dict[tuple[str, str], str]] = {}
        self._nouns: dict[str, _NounLoader] = {
            "site": _NounLoader(_SITES, " AND id = ANY (%(keys)s::uuid[])", self._put_site, self._delete_site),
            "policy": _NounLoader(
                _POLICIES, " AND p.id = ANY (%(keys)s::uuid[])", self._put_policy, self._delete_policy
            ),
            "nas": _NounLoader(_NASES, " AND n.id = ANY (%(keys)s::uuid[])", self._put_nas, None),
            "endpoint": _NounLoader(
                _ENDPOINTS, " AND e.mac = ANY (%(keys)s::macaddr[])", self._put_endpoint, self._delete_endpoint
            ),
            "user": _NounLoader(_USERS, " AND u.name = ANY (%(keys)s)", self._put_user, self._delete_user),
            "identity-source": _NounLoader(
                _SOURCES, " AND id = ANY (%(keys)s::uuid[])", self._put_source, self._delete_source
            ),
            "certificate": _NounLoader(
                _CERTIFICATES,
                " AND serial = ANY (SELECT decode(hex, 'hex') FROM unnest(%(keys)s::text[]) hex)",
                _put_certificate,
                WriteBatch.delete_certificate,
            ),
            "external-status": _NounLoader(
                _STATUSES,
                " AND (authority_id, serial) IN (SELECT split_part(told, ':', 1)::uuid, "
                "decode(split_part(told, ':', 2), 'hex') FROM unnest(%(keys)s::text[]) told)",
                _put_status,
                _delete_status,
            ),
            "pool": _NounLoader(
                pools.POOLS, " AND p.id = ANY (%(keys)s::uuid[])", self._put_pool, WriteBatch.delete_pool
            ),
            "pool-lease": _NounLoader(
                pools.LEASES,
                pools.LEASES_BY_KEYS,
                pools.put_lease,
                pools.delete_lease,
            ),
        }

    @property
    def nouns(self) -> Collection[str]:
        return self._nouns.keys()

    def read_slots(self, cursor: psycopg.Cursor) -> dict[int, SlotRecord]:
        rows = cursor.execute(_SLOTS, {"cell": self._cell_id, "profile": SERVER_PROFILE}).fetchall()
        return {row[0]: self._slot_record(row[1:]) for row in rows}

    def _slot_record(self, row: Row) -> SlotRecord:
        secrets_row = compiling.SecretsRow(*row[17:])
        secrets = self._secrets(row[0], "slot", row[1], f"the tenant {row[2]}", secrets_row)
        return compiling.slot_record(row[:17], secrets, secrets_row.rotation)

    def _secrets(
        self, tenant: int, noun: str, key: str, whose: str, row: compiling.SecretsRow
    ) -> tuple[SecretRecord, ...]:
        """Secrets of a row for the replica, encrypted with the cell's key.

        The result is empty if the secrets cannot be decrypted. Logins continue nevertheless, because radiusd's
        configuration contains the current secret.
        """
        try:
            records = compiling.secret_records(row, self._reseal_cached)
        except SecretsError as exc:
            why = f"The secret of {whose} cannot be rotated: {exc}"
            self._raise_alarm(tenant, noun, key, f"{noun}-unsealed-{key}", why)
            return ()
        self._clear_alarm(tenant, noun, key)
        return records

    def put_authorities(self, cursor: psycopg.Cursor, batch: WriteBatch) -> None:
        """Write all authorities of the cell.

        The function always writes all authorities, because a cell has few authorities. Besides, several tenants may
        trust authorities with the same name.
        """
        batch.clear_authorities()
        rows = [compiling.AuthorityRow(*row) for row in cursor.execute(_AUTHORITIES).fetchall()]
        for subject, record in compiling.authority_records(rows).items():
            batch.put_authority(subject, record)
        for (tenant, subject), issuer in compiling.issuer_records(rows).items():
            batch.put_issuer(tenant, subject, issuer)

    def load_tenant(self, connection: psycopg.Connection, batch: WriteBatch, tenant: TenantKey) -> int:
        """Write all rows of a tenant into the batch. Returns the number of rows.

        The batch must not contain rows of this tenant.
        """
        count = 0
        for name, noun in self._nouns.items():
            for row in _stream_rows(connection, noun.query, {"tenant": tenant.id}):
                self._put(name, batch, tenant, row)
                count += 1
        return count

    def refresh(
        self, cursor: psycopg.Cursor, batch: WriteBatch, tenant: TenantKey, noun_name: str, changed: Collection[str]
    ) -> None:
        """Update the records of the changed keys. Delete each record whose row does not exist any more."""
        noun = self._nouns[noun_name]
        if noun.delete is None:
            batch.clear_nases(tenant.number, changed)
        gone = set(changed)
        ordered = sorted(changed)
        for start in range(0, len(ordered), FETCH_ROWS):
            parameters = {"tenant": tenant.id, "keys": ordered[start : start + FETCH_ROWS]}
            for row in cursor.execute(noun.query + noun.by_keys, parameters).fetchall():
                gone.discard(self._put(noun_name, batch, tenant, row))
        for key in gone:
            if noun.delete is not None:
                noun.delete(batch, tenant.number, key)
            self._clear_alarm(tenant.number, f"unreadable-{noun_name}", key)

    def _put(self, noun_name: str, batch: WriteBatch, tenant: TenantKey, row: Row) -> str:
        """Write a row and return its key.

        If the row is invalid, writes a replacement record, so that other rows are still written.
        """
        key_of, stand_in, consequence = STAND_INS[noun_name]
        noun = f"unreadable-{noun_name}"
        try:
            key = self._nouns[noun_name].put(batch, tenant.number, row)
        except CELL_WIDE_ERRORS:
            raise
        except Exception as exc:  # house-rule: one tenant's bad row must not hold up the others' changes
            key = key_of(row)
            stand_in(batch, tenant.number, row)
            why = (
                f"Row {display_key(noun_name, key)} of {noun_name} of tenant {tenant.id} cannot be read"
                f" ({type(exc).__name__}). {consequence}."
            )
            digest = sha256(key.encode()).hexdigest()[:16]
            if (noun, key) not in self._alarmed.get(tenant.number, {}):
                _log.warning("%s", why, exc_info=exc)
            self._raise_alarm(tenant.number, noun, key, f"{noun}-{tenant.number}-{digest}", why)
        else:
            self._clear_alarm(tenant.number, noun, key)
        return key

    def holds_server_certificate(self, cursor: psycopg.Cursor, tenant_id: str, serials: Collection[str]) -> bool:
        row = cursor.execute(_HAS_SERVER, (tenant_id, SERVER_PROFILE, list(serials))).fetchone()
        return row is not None and bool(row[0])

    def _put_site(self, batch: WriteBatch, tenant: int, row: Row) -> str:
        site_id: str = row[0]
        try:
            batch.put_site(tenant, compiling.site_record(row, self.replies))
        except PolicyErrors as exc:
            batch.keep_site(tenant, site_id)
            self._refuse(
                tenant,
                "site",
                site_id,
                f"The change of site {row[1]} is not in force: {compiling.summarise_mistakes(exc)}",
            )
        else:
            self._clear_alarm(tenant, "site", site_id)
        return site_id

    def _delete_site(self, batch: WriteBatch, tenant: int, site_id: str) -> None:
        batch.delete_site(tenant, site_id)
        self._clear_alarm(tenant, "site", site_id)

    def _put_policy(self, batch: WriteBatch, tenant: int, row: Row) -> str:
        policy_id: str = row[0]
        try:
            batch.put_policy(tenant, compiling.policy_record(row, self.replies))
        except PolicyErrors as exc:
            batch.keep_policy(tenant, policy_id)
            why = f"Version {row[2]} of policy {row[1]} is not in force: {compiling.summarise_mistakes(exc)}"
            self._refuse(tenant, "policy", policy_id, why)
        else:
            self._clear_alarm(tenant, "policy", policy_id)
        return policy_id

    def _delete_policy(self, batch: WriteBatch, tenant: int, policy_id: str) -> None:
        batch.delete_policy(tenant, policy_id)
        self._clear_alarm(tenant, "policy", policy_id)

    def _refuse(self, tenant: int, noun: str, record_id: str, why: str) -> None:
        self._raise_alarm(
            tenant, noun, record_id, f"{noun}-refused-{record_id}", f"{why}. The previous version stays in force."
        )

    def _raise_alarm(self, tenant: int, noun: str, key: str, code: str, detail: str) -> None:
        if self._alarms.report_row(code, detail, tenant=tenant):
            self._alarmed.setdefault(tenant, {})[noun, key] = code

    def _clear_alarm(self, tenant: int, noun: str, key: str) -> None:
        code = self._alarmed.get(tenant, {}).pop((noun, key), None)
        if code is not None:
            self._alarms.clear(code)

    def forget_alarms(self, tenant: int | None = None) -> None:
        """Clear the alarms of a tenant that has left. If `tenant` is None, clear the alarms of all tenants.

        A full load raises current alarms again.
        """
        for gone in [tenant] if tenant is not None else list(self._alarmed):
            for code in self._alarmed.pop(gone, {}).values():
                self._alarms.clear(code)

    def _put_nas(self, batch: WriteBatch, tenant: int, row: Row) -> str:
        nas, (identifier, address), secrets_row = compiling.NasRow(*row[:9]), row[9:11], compiling.SecretsRow(*row[11:])
        secrets = self._secrets(tenant, "nas", nas.nas_id, f"NAS {nas.name}", secrets_row)
        try:
            record = compiling.nas_record(nas, secrets, secrets_row.rotation, self._reseal_cached)
        except SecretsError as exc:
            # If the MAB password cannot be decrypted, Admit admits no MAC address at this NAS.
            nas = nas._replace(mab_password_sealed=None)
            record = compiling.nas_record(nas, secrets, secrets_row.rotation, self._reseal_cached)
            why = f"NAS {nas.name} admits no MAC address: its MAB password cannot be opened: {exc}"
            self._raise_alarm(tenant, "nas-mab", nas.nas_id, f"nas-mab-unsealed-{nas.nas_id}", why)
        else:
            self._clear_alarm(tenant, "nas-mab", nas.nas_id)
        if identifier:
            batch.put_nas(keys.by_identifier(tenant, identifier), record)
        if address:
            batch.put_nas(keys.by_address(tenant, ip_address(address).packed), record)
        return record.nas_id

    def _put_endpoint(self, batch: WriteBatch, tenant: int, row: Row) -> str:
        mac: str = row[0]
        endpoint = compiling.EndpointRow(*row[1:])
        try:
            record = compiling.endpoint_record(endpoint, self._reseal_cached)
        except SecretsError as exc:
            record = compiling.endpoint_record(endpoint._replace(psk_sealed=None), self._reseal_cached)
            why = f"Endpoint {display_mac(mac)} gets no passphrase: {exc}"
            self._raise_alarm(tenant, "endpoint", mac, f"endpoint-unsealed-{endpoint.endpoint_id}", why)
        else:
            self._clear_alarm(tenant, "endpoint", mac)
        batch.put_endpoint(tenant, mac, record)
        return mac

    def _delete_endpoint(self, batch: WriteBatch, tenant: int, mac: str) -> None:
        batch.delete_endpoint(tenant, mac)
        self._clear_alarm(tenant, "endpoint", mac)

    def _reseal_cached(self, sealed: bytes, context: str) -> bytes:
        """Encrypt a passphrase with the cell's key.

        Uses a cache, because thousands of group members may share a passphrase.
        """
        resealed = self._resealed.get((sealed, context))
        if resealed is None:
            if len(self._resealed) >= MAX_RESEALED:
                self._resealed.clear()
            resealed = self._resealed[sealed, context] = self._reseal(sealed, context)
        return resealed

    def _put_user(self, batch: WriteBatch, tenant: int, row: Row) -> str:
        name: str = row[1]
        try:
            record = compiling.user_record(row, self._reseal)
        except SecretsError as exc:
            # Without the encrypted password, the user can still log in by PAP, but not by CHAP and MS-CHAP.
            record = compiling.user_record(row, _reseal_to_nothing)
            why = f"User {name} cannot use CHAP and MS-CHAP: {exc}"
            self._raise_alarm(tenant, "user", name, f"user-unsealed-{row[0]}", why)
        else:
            self._clear_alarm(tenant, "user", name)
        batch.put_user(tenant, record)
        return name

    def _delete_user(self, batch: WriteBatch, tenant: int, name: str) -> None:
        batch.delete_user(tenant, name)
        self._clear_alarm(tenant, "user", name)

    def _put_source(self, batch: WriteBatch, tenant: int, row: Row) -> str:
        source_id: str = row[0]
        try:
            record = compiling.identity_source_record(row, self._reseal)
        except SecretsError as exc:
            # Without its secret, the source rejects each login. The source must not be omitted, because its users would
            # fall through to the next source.
            record = compiling.identity_source_record((*row[:-1], None), self._reseal)
            why = f"Identity source {row[1]} cannot be used: {exc}"
            self._raise_alarm(tenant, "identity-source", source_id, f"identity-source-unsealed-{source_id}", why)
        else:
            self._clear_alarm(tenant, "identity-source", source_id)
        batch.put_identity_source(tenant, record)
        return source_id

    def _put_pool(self, batch: WriteBatch, tenant: int, row: Row) -> str:
        return pools.put_pool(batch, tenant, row, self._claims_of(row[0]))

    def _delete_source(self, batch: WriteBatch, tenant: int, source_id: str) -> None:
        batch.delete_identity_source(tenant, source_id)
        self._clear_alarm(tenant, "identity-source", source_id)


class _NounLoader(NamedTuple):
    query: str
    # Condition that is appended to the query to select single keys.
    by_keys: str
    # Function that writes a row, and returns the key that the row has in the change feed.
    put: Callable[[WriteBatch, int, Row], str]
    # Function that deletes a record by this key. None for NASes, because their keys in the replica differ from their
    # keys in the change feed.
    delete: Callable[[WriteBatch, int, str], None] | None


def _reseal_to_nothing(sealed: bytes, context: str) -> bytes:
    return b""


def _put_certificate(batch: WriteBatch, tenant: int, row: Row) -> str:
    serial: str = row[0]
    batch.put_certificate(tenant, serial, compiling.certificate_record(row[1:]))
    return serial


def _put_status(batch: WriteBatch, tenant: int, row: Row) -> str:
    authority_id, serial, *status = row
    batch.put_external_status(tenant, authority_id, serial, compiling.external_status_record((status[0], status[1])))
    return f"{authority_id}:{serial}"


def _delete_status(batch: WriteBatch, tenant: int, key: str) -> None:
    authority_id, _, serial = key.partition(":")
    batch.delete_external_status(tenant, authority_id, serial)


def _stream_rows(connection: psycopg.Connection, query: str, parameters: dict[str, str]) -> Iterator[Row]:
    """Read the rows in parts, because memory cannot hold half a million endpoints at the same time."""
    with connection.cursor(name="mirror") as cursor:
        cursor.itersize = FETCH_ROWS
        cursor.execute(query.encode(), parameters)
        yield from cursor
