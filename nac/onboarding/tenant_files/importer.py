"""Creates a tenant from a file, completely or not at all. Requires a session in PlatformScope.

The import replaces each id in the file by a new id, derived from the id of the new tenant. So no row of the file can
replace a row of another tenant, or refer to such a row. With `keeps_authorities`, authorities keep their ids, because
URLs in certificates contain these ids. The database then rejects an import whose authorities already exist.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any
from uuid import UUID, uuid5

from cryptography import x509
from sqlalchemy import Table, Text, cast, func, insert, select, text
from sqlalchemy.orm import Session

from nac.certificates.authorities import create_tenant_authorities
from nac.certificates.signing import SigningContext
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import enter_tenant, set_for_transaction
from nac.kit.db.declarations import HashColumn, SealedColumn
from nac.kit.db.error_translation import report_missing_at
from nac.kit.db.queries import GROWING_TABLES, analyse_if_grown
from nac.kit.errors import AlreadyExists, InvalidInput
from nac.kit.ids import MspId, TenantId
from nac.kit.passwords import require_stored_hash
from nac.kit.secrets import Sealer
from nac.kit.validation import RADIUS_SECRET, require_name, require_slug
from nac.models import Tenant
from nac.onboarding.tenant_files import tables
from nac.onboarding.tenant_files.content_checks import check_contents, check_row
from nac.onboarding.tenant_files.reader import TableRow, TenantFile, TenantFileRefused
from nac.tenancy import msps
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import repository
from pki.errors import UNREADABLE_ERRORS, PkiError
from pki.keys import is_same_public_key, load_key
from pki.uploads import list_weaknesses

_BATCH_ROWS = 500
_BATCH_BYTES = 4 << 20
_AUTHORITY_TABLE = "certificate_authorities"
_MAX_AUTHORITIES = 5_000
_MAX_AUTHORITY_BYTES = 16 << 20
# Certificates refer to the certificates they renew. For this large table, PostgreSQL checks the references after the
# last row.
_DEFERRED_TABLE = "certificates"
_DEFER_CONSTRAINT = text("SET CONSTRAINTS fk_certificates_tenant_id_renews_id DEFERRED")
_CHECK_CONSTRAINT = text("SET CONSTRAINTS fk_certificates_tenant_id_renews_id IMMEDIATE")


@dataclass(slots=True)
class TenantImportResult:
    tenant: Tenant
    # Number of imported rows by table.
    rows: dict[str, int] = field(default_factory=dict)
    # Notes for administrators about steps after the import.
    notes: list[str] = field(default_factory=list)


def import_tenant(
    session: Session,
    source: IO[bytes],
    *,
    actor: str,
    slug: str,
    msp_id: MspId,
    signing: SigningContext,
    passphrase: str = "",
    label: str = "",
    keeps_authorities: bool = False,
    report: Callable[[int, int], None] = lambda done, total: None,
    note: Callable[[TenantImportResult], None] = lambda done: None,
) -> TenantImportResult:
    """Create a tenant from the file `source`, and change the session to the tenant's scope.

    During the import, calls `report` with the number of imported rows and the number of all rows. An error in `report`
    stops the import. If the file has no authorities, commits the tenant and creates new authorities at the end
    (`create_tenant_authorities`). If this step fails, the worker completes the authorities. Calls `note` before the
    commit. Raises TenantFileRefused, PassphraseRefused, NoFreeSlot or AlreadyExists.
    """
    file = TenantFile(source, passphrase=passphrase)
    # Otherwise, PostgreSQL would plan the queries of foreign keys and triggers for empty tables, and cache these plans.
    # Later, each query would scan a whole table.
    set_for_transaction(session, plan_cache_mode="force_custom_plan")
    require_slug(slug)
    msps.require_active(session, msp_id=msp_id)
    if repository.get_by_slug(session, slug):
        raise AlreadyExists(f"Tenant {slug!r} already exists.", place="slug")
    settings = file.settings()
    settings["name"] = require_name(str(settings.get("name") or slug))
    tenant = Tenant(slug=slug, msp_id=msp_id, **settings)
    session.add(tenant)
    session.flush()
    enter_tenant(session, tenant.id)
    slot = cells.assign_slot(session, tenant_id=tenant.id, label=label)
    done = TenantImportResult(tenant)
    taker = _TableImporter(session, file, tenant.id, signing.sealer, keeps_authorities=keeps_authorities)
    for table in tables.content_tables():
        done.rows[table.name] = taker.take(
            table, report=lambda rows: report(sum(done.rows.values()) + rows, file.count)
        )
    if not done.rows["sites"]:
        raise TenantFileRefused("The file has no site.", place="sites")
    tenant.default_site_id = taker.new_id("sites", file.default_site_id)
    with report_missing_at("sites"):
        session.flush()
    check_contents(session, actor=actor, tenant=tenant, sealer=signing.sealer)
    if not file.has_secrets:
        done.notes.append(
            "The file has no secrets. The authorities are new, so devices need new certificates. Set"
            " passwords of users again, and the secrets of NASes, identity sources, feeds and webhooks."
        )
    if (secret := file.radius_secret()) is not None:
        slot.secret_sealed = signing.sealer.seal(_require_radius_secret(secret), cells.slot_secret_context(slot))
        done.notes.append(
            "The tenant has the RADIUS secret of the file. The cell applies the secret within 30 seconds."
        )
    else:
        done.notes.append("The RADIUS secret is new.")
    if done.rows["feeds"]:
        done.notes.append("The feeds are paused. Resume the feeds that this installation must send.")
    done.notes.append("Configure the new address and ports on the NASes.")
    audit.append(
        session,
        actor=actor,
        action="tenant.import",
        target=slug,
        tenant_id=tenant.id,
        msp_id=msp_id,
        after={"rows": sum(done.rows.values()), "of": str(file.tenant_id), "secrets": file.has_secrets},
    )
    note(done)
    if not file.has_secrets:
        create_tenant_authorities(session, actor=actor, tenant_id=tenant.id, signing=signing, now=utc_now())
    return done


class _TableImporter:
    def __init__(
        self, session: Session, file: TenantFile, tenant_id: TenantId, sealer: Sealer, *, keeps_authorities: bool
    ) -> None:
        self._session = session
        self._file = file
        self._tenant_id = tenant_id
        self._sealer = sealer
        self._kept = {_AUTHORITY_TABLE} if keeps_authorities else set()
        self._snapshot = session.scalar(select(cast(func.pg_current_snapshot(), Text)))

    def new_id(self, table: str, old: UUID) -> UUID:
        return old if table in self._kept else uuid5(self._tenant_id, str(old))

    def take(self, table: Table, *, report: Callable[[int], None]) -> int:
        """Insert the rows of a table, each authority after its issuer. Returns the number of inserted rows."""
        shape = _TableShape.of(table)
        parents = [column for column, referred in shape.references.items() if referred == table.name]
        if table.name == _DEFERRED_TABLE:
            parents = []
            self._session.execute(_DEFER_CONSTRAINT)
        waiting: list[dict[str, Any]] = []
        count = size = 0
        for row in self._file.rows(table):
            waiting.append(self._values(shape, row))
            size += row.size_bytes
            count += 1
            report(count)
            # If rows of a table refer to each other, read the whole table first. Insert other tables in batches.
            if parents and (count > _MAX_AUTHORITIES or size > _MAX_AUTHORITY_BYTES):
                raise TenantFileRefused("The file has too many rows for this table.", place=table.name)
            if not parents and (len(waiting) == _BATCH_ROWS or size > _BATCH_BYTES):
                self._insert(shape, waiting)
                waiting, size = [], 0
        for batch in _order_by_generation(waiting, parents):
            self._insert(shape, batch)
            report(count)
        if table.name == _DEFERRED_TABLE:
            with report_missing_at(_DEFERRED_TABLE):
                self._session.execute(_CHECK_CONSTRAINT)
        return count

    def _insert(self, shape: "_TableShape", rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            for referred in GROWING_TABLES.intersection(shape.references.values()):
                analyse_if_grown(self._session, referred)
            with report_missing_at(shape.table.name):
                self._session.execute(insert(shape.table).inline(), rows)

    def _values(self, shape: "_TableShape", row: TableRow) -> dict[str, Any]:
        table = shape.table
        values = {**row.values, "tenant_id": self._tenant_id, **tables.CONTENT_TABLES[table.name].reset}
        if "id" in values:
            values["id"] = self.new_id(table.name, values["id"])
        for column, referred in shape.references.items():
            if values.get(column) is not None:
                values[column] = self.new_id(referred, values[column])
        try:
            _check_values(shape, row)
        except (ValueError, PkiError) as exc:
            raise TenantFileRefused(f"{exc}", place=table.name) from exc
        for name, sealed in shape.sealed.items():
            plain, context = row.secrets.get(name), sealed.context(self._tenant_id, values.get("id"))
            values[name] = None if plain is None else self._sealer.seal(plain, context)
        for name, hashed in shape.hashed.items():
            values[name] = require_stored_hash(row.secrets.get(name, hashed.without_key.encode()))
        if table.name == "feeds":
            values["done"] = self._snapshot
        return values


@dataclass(frozen=True, slots=True)
class _TableShape:
    """Properties of a table that the import of each row needs."""

    table: Table
    references: Mapping[str, str]
    sealed: Mapping[str, SealedColumn]
    hashed: Mapping[str, HashColumn]

    @classmethod
    def of(cls, table: Table) -> "_TableShape":
        return cls(table, _find_references(table), tables.sealed_columns(table), tables.hashed_columns(table))


def _find_references(table: Table) -> dict[str, str]:
    """Return the columns that contain ids of other rows in the file, with the tables of these rows."""
    found = {}
    for constraint in table.foreign_key_constraints:
        for column, key in zip(constraint.columns, constraint.elements, strict=True):
            if key.column.name == "id" and constraint.referred_table.name in tables.CONTENT_TABLES:
                found[column.name] = constraint.referred_table.name
    return found


def _order_by_generation(rows: list[dict[str, Any]], parents: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Group rows into batches. A row comes after the rows whose ids are in its columns `parents`.

    Raises TenantFileRefused if rows refer to each other in a cycle.
    """
    if not parents:
        return [rows]
    there: set[object] = set()
    batches = []
    while rows:
        own = {row["id"] for row in rows} | there
        ready = [row for row in rows if all(row.get(each) in there or row.get(each) not in own for each in parents)]
        if not ready:
            raise TenantFileRefused("Rows refer to each other in a cycle.", place="file")
        batches.append(ready)
        there |= {row["id"] for row in ready}
        rows = [row for row in rows if row["id"] not in there]
    return batches


def _check_values(shape: _TableShape, row: TableRow) -> None:
    """Check the values that the database does not check, because invalid values could affect other tenants.

    Raises ValueError or PkiError.
    """
    table = shape.table
    for name, column in shape.sealed.items():
        # The tenants of a cell share one configuration, which a single invalid secret would break.
        if column.is_radius_secret and name in row.secrets:
            _require_radius_secret(row.secrets[name].decode("ascii", "replace"))
    if table.name == _AUTHORITY_TABLE:
        _check_authority(row)
    check_row(table.name, row.values)


def _check_authority(row: TableRow) -> None:
    """Check that the private key of an authority matches its certificate, and that an external authority is strong.

    Imports every key as a sealed key, so that a file cannot refer to a key in the platform's PKCS#11 token. Raises
    ValueError or PkiError.
    """
    plain = row.secrets.get("key_sealed")
    row.values["key_store"] = "sealed"
    if row.values["kind"] == "external":
        _require_strong_authority(row.values["certificate_der"])
    if plain is None:
        return
    key = load_key(plain)
    certificate = x509.load_der_x509_certificate(row.values["certificate_der"])
    if not is_same_public_key(key.public_key(), certificate.public_key()):
        raise ValueError("the key of an authority does not match its certificate")


def _require_strong_authority(certificate_der: bytes) -> None:
    try:
        weaknesses = list(list_weaknesses(x509.load_der_x509_certificate(certificate_der)))
    except UNREADABLE_ERRORS as exc:
        raise ValueError("the certificate of an external authority is not readable") from exc
    if weaknesses:
        raise ValueError(weaknesses[0])


def _require_radius_secret(text: str) -> bytes:
    if not RADIUS_SECRET.fullmatch(text):
        raise InvalidInput("The file contains an invalid RADIUS secret.", place="secrets")
    return text.encode()
