"""A new tenant of a file: all of it, or nothing. In PlatformScope.

Every id is made anew, of the new tenant's: no row of a file can be, or refer to, a row of somebody else. Authorities
may keep theirs, which certificates name (`keeps_authorities`): where one is here already, the database refuses it all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final
from uuid import UUID, uuid5

from cryptography import x509
from sqlalchemy import Table, Text, cast, func, insert, select, text
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.cells import service as cells
from nac.certificates.authorities import create_tenant_authorities
from nac.certificates.signing import Signing
from nac.clock import utc_now
from nac.db import enter_tenant, set_for_transaction
from nac.db.failures import naming
from nac.db.growth import GROWING, note_growth
from nac.errors import AlreadyExists, InvalidInput
from nac.ids import MspId, TenantId
from nac.models import Tenant
from nac.msps import service as msps
from nac.secrets import Sealer
from nac.tenant_files import tables
from nac.tenant_files.content_checks import check_contents, check_row
from nac.tenant_files.reader import TableRow, TenantFile, TenantFileRefused
from nac.tenants import repository
from nac.users.passwords import require_stored_hash
from nac.validation import RADIUS_SECRET, require_name, require_slug
from pki.errors import PkiError
from pki.keys import is_same_public_key, load_key

_BATCH_ROWS = 500
_BATCH_BYTES = 4 << 20
_AUTHORITY_TABLE = "certificate_authorities"
# Of these all tenants of a cell have a part in one configuration, which a single wrong one keeps from being written.
_RADIUS_SECRETS: Final = {"nases": "secret_sealed", "secret_rotations": "next_sealed"}
_MAX_AUTHORITIES = 5_000
_MAX_AUTHORITY_BYTES = 16 << 20
# Of a table of which there may be very many rows: whom they renew is looked at when all of them are there.
_DEFERRED_TABLE = "certificates"
_DEFER_CONSTRAINT = text("SET CONSTRAINTS fk_certificates_tenant_id_renews_id DEFERRED")
_CHECK_CONSTRAINT = text("SET CONSTRAINTS fk_certificates_tenant_id_renews_id IMMEDIATE")


@dataclass(slots=True)
class TenantImportResult:
    tenant: Tenant
    # By table.
    rows: dict[str, int] = field(default_factory=dict)
    # What somebody has to know or do.
    notes: list[str] = field(default_factory=list)


def import_tenant(
    session: Session,
    source: IO[bytes],
    *,
    actor: str,
    slug: str,
    msp_id: MspId,
    signing: Signing,
    passphrase: str = "",
    label: str = "",
    keeps_authorities: bool = False,
    tell: Callable[[int, int], None] = lambda done, total: None,
    note: Callable[[TenantImportResult], None] = lambda done: None,
) -> TenantImportResult:
    """Enters the tenant. `tell`: how many rows are taken, and of how many; what it raises ends it. `note` is called
    once all of it is there but authorities that the file has not: these are signed last, behind a commit, and by the
    worker where that does not come to an end (`create_tenant_authorities`).

    Raises TenantFileRefused, PassphraseRefused, NoFreeSlot, AlreadyExists.
    """
    file = TenantFile(source, passphrase=passphrase)
    # References and triggers are looked up by plans that are made once: over tables that were empty then, they would
    # read all of them for each row.
    set_for_transaction(session, plan_cache_mode="force_custom_plan")
    require_slug(slug)
    msps.require_active(session, msp_id=msp_id)
    if repository.get_by_slug(session, slug):
        raise AlreadyExists(f"There is a tenant {slug!r} already.", place="slug")
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
        done.rows[table.name] = taker.take(table, tell=lambda rows: tell(sum(done.rows.values()) + rows, file.count))
    if not done.rows["sites"]:
        raise TenantFileRefused("It has no site.", place="sites")
    tenant.default_site_id = taker.new_id("sites", file.default_site_id)
    with naming("sites"):
        session.flush()
    check_contents(session, actor=actor, tenant=tenant, sealer=signing.sealer)
    if not file.has_secrets:
        done.notes.append(
            "The file has no secrets: the authorities are new, and devices need new certificates. Passwords of users, "
            "secrets of NASes and of identity sources, feeds and webhooks have to be given again."
        )
    if (secret := file.radius_secret()) is not None:
        slot.secret_sealed = signing.sealer.seal(_require_radius_secret(secret), cells.secret_context(slot))
        done.notes.append("The RADIUS secret is the one of the file; the cell takes it up within half a minute.")
    else:
        done.notes.append("The RADIUS secret is a new one.")
    if done.rows["feeds"]:
        done.notes.append("Its feeds are paused: resume those that are to send from here.")
    done.notes.append("Its NASes have to be told the new address and ports.")
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

    def take(self, table: Table, *, tell: Callable[[int], None]) -> int:
        """How many rows. Authorities come after those that have signed them."""
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
            tell(count)
            # Whole where rows refer to one another, and else a few at a time.
            if parents and (count > _MAX_AUTHORITIES or size > _MAX_AUTHORITY_BYTES):
                raise TenantFileRefused("It has more of them than a tenant can have.", place=table.name)
            if not parents and (len(waiting) == _BATCH_ROWS or size > _BATCH_BYTES):
                self._insert(shape, waiting)
                waiting, size = [], 0
        for batch in _order_by_generation(waiting, parents):
            self._insert(shape, batch)
            tell(count)
        if table.name == _DEFERRED_TABLE:
            with naming(_DEFERRED_TABLE):
                self._session.execute(_CHECK_CONSTRAINT)
        return count

    def _insert(self, shape: "_TableShape", rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            for referred in GROWING.intersection(shape.references.values()):
                note_growth(self._session, referred)
            with naming(shape.table.name):
                self._session.execute(insert(shape.table).inline(), rows)

    def _values(self, shape: "_TableShape", row: TableRow) -> dict[str, Any]:
        table = shape.table
        values = {**row.values, "tenant_id": self._tenant_id, **tables.RESET_VALUES.get(table.name, {})}
        if "id" in values:
            values["id"] = self.new_id(table.name, values["id"])
        for column, referred in shape.references.items():
            if values.get(column) is not None:
                values[column] = self.new_id(referred, values[column])
        try:
            _check_values(table, row)
        except (ValueError, PkiError) as exc:
            raise TenantFileRefused(f"{exc}", place=table.name) from exc
        for name, context in shape.sealed.items():
            plain = row.secrets.get(name)
            values[name] = (
                None if plain is None else self._sealer.seal(plain, context(self._tenant_id, values.get("id")))
            )
        for name in shape.hashed:
            values[name] = require_stored_hash(
                row.secrets.get(name, tables.HASH_COLUMNS[f"{table.name}.{name}"].encode())
            )
        if table.name == "feeds":
            values["done"] = self._snapshot
        return values


@dataclass(frozen=True, slots=True)
class _TableShape:
    """Of a table, looked up once for all of its rows."""

    table: Table
    references: Mapping[str, str]
    sealed: Mapping[str, tables.SealContext]
    hashed: Sequence[str]

    @classmethod
    def of(cls, table: Table) -> "_TableShape":
        return cls(table, _find_references(table), tables.sealed_columns(table), tables.hashed_columns(table))


def _find_references(table: Table) -> dict[str, str]:
    """Columns that hold ids of rows of the file, and of which table."""
    found = {}
    for constraint in table.foreign_key_constraints:
        for column, key in zip(constraint.columns, constraint.elements, strict=True):
            if key.column.name == "id" and constraint.referred_table.name in tables.CONTENT_TABLES:
                found[column.name] = constraint.referred_table.name
    return found


def _order_by_generation(rows: list[dict[str, Any]], parents: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Each behind what it refers to. Raises TenantFileRefused where they go round."""
    if not parents:
        return [rows]
    there: set[object] = set()
    batches = []
    while rows:
        own = {row["id"] for row in rows} | there
        ready = [row for row in rows if all(row.get(each) in there or row.get(each) not in own for each in parents)]
        if not ready:
            raise TenantFileRefused("Its rows refer to one another in a circle.", place="file")
        batches.append(ready)
        there |= {row["id"] for row in ready}
        rows = [row for row in rows if row["id"] not in there]
    return batches


def _check_values(table: Table, row: TableRow) -> None:
    """What the database does not: values that reach beyond the tenant's own rows. Raises ValueError or PkiError."""
    radius_secret = row.secrets.get(_RADIUS_SECRETS.get(table.name, ""))
    if radius_secret is not None:
        _require_radius_secret(radius_secret.decode("ascii", "replace"))
    if table.name == _AUTHORITY_TABLE:
        _check_authority(row)
    check_row(table.name, row.values)


def _check_authority(row: TableRow) -> None:
    """The key is one, and this certificate's: never the address of one in the platform's token."""
    plain = row.secrets.get("key_sealed")
    row.values["key_store"] = "sealed"
    if plain is None:
        return
    key = load_key(plain)
    certificate = x509.load_der_x509_certificate(row.values["certificate_der"])
    if not is_same_public_key(key.public_key(), certificate.public_key()):
        raise ValueError("the key of an authority is not that of its certificate")


def _require_radius_secret(text: str) -> bytes:
    if not RADIUS_SECRET.fullmatch(text):
        raise InvalidInput("A RADIUS secret of the file cannot be used.", place="secrets")
    return text.encode()
