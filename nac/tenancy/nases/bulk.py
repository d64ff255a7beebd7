"""Bulk import of NASes. The import compares all rows with the stored NASes. It then stores all rows or no rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.bulk_rows import (
    EXISTING_REMEDY,
    WRONG_TYPE,
    InputLine,
    OnExisting,
    PlannedRow,
    ProgressCallback,
    RowMistake,
    RowReader,
    ignore_progress,
    split_progress,
)
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.sealing import Seal
from nac.kit.validation import require_not_reserved
from nac.models import Nas
from nac.tenancy import sites
from nac.tenancy.nases import mab, service
from nac.tenancy.policy_references import list_referenced_names

FLAGS = ("require_message_authenticator", "behind_nat", "signs_coa_answers", "mab_by_name")
# Fields of a NAS that no response contains.
SECRETS = ("secret", "mab_password_text")
_TEXT_FIELDS = ("name", "identifier", "address", "vendor", "mab_password", *SECRETS)
# Number of NASes between two progress reports.
_BATCH_ROWS = 1_000
_PLAIN_FIELDS = ("name", "identifier", "address", "vendor", "mab_password", *FLAGS)
COLUMNS = ("name", "site", "identifier", "address", "vendor", "mab_password", *SECRETS, *FLAGS)
MAX_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class NasBulkOptions:
    existing: OnExisting = "refuse"


@dataclass(slots=True)
class NasBulkPlan:
    """Planned changes of an import. Do not store a plan that has mistakes."""

    mistakes: list[RowMistake]
    planned: list[PlannedRow]
    fresh: list[Nas]
    # For each NAS to change: the stored NAS, a NAS object with the new values, and the new secrets by field name.
    changed: list[tuple[Nas, Nas, dict[str, str]]]


@dataclass(frozen=True, slots=True)
class _ExistingNases:
    by_key: Mapping[tuple[str, str], Nas]
    sites: Mapping[str, UUID]
    default_site: UUID
    # Number of NASes with each name.
    names: Counter[str]
    # Function that returns the names of NASes to which policies refer.
    named: Callable[[], frozenset[str]]


def plan_nases(
    session: Session, *, tenant_id: TenantId, lines: Iterable[InputLine], options: NasBulkOptions, seal: Seal
) -> NasBulkPlan:
    """Plan the import. Locks all NASes of the tenant until the transaction ends.

    If a stored NAS has the identifier or address of a row, `options` decide whether the row updates this NAS. All
    other rows create NASes.
    """
    reader = RowReader()
    made = NasBulkPlan(reader.mistakes, [], [], [])
    lines = list(lines)
    if not lines:
        return made
    known = service.lock_all(session, tenant_id)
    there = _ExistingNases(
        {key: nas for nas in known for key in _lookup_keys(nas.identifier, nas.address)},
        {site.slug: site.id for site in sites.list_sites(session, tenant_id=tenant_id)},
        sites.require_default(session, tenant_id=tenant_id).id,
        Counter(nas.name for nas in known),
        cache(lambda: list_referenced_names(session, tenant_id=tenant_id, kind="nas")),
    )
    first: dict[tuple[str, str], int] = {}
    for count, line in enumerate(lines):
        if count == MAX_ROWS:
            reader.wrong(line, "", f"The import has more than {MAX_ROWS} NASes.", "Import the NASes in several parts.")
            break
        given = _read_values(line, reader, there)
        if given is None:
            continue
        keys = _lookup_keys(given.get("identifier"), given.get("address"))
        for field, key in keys:
            if (field, key) in first:
                reader.add_duplicate(line.number, field, key, before=first[field, key])
            first.setdefault((field, key), line.number)
        _plan_row(made, reader, line, given, there, options, (tenant_id, seal))
    return made


def _lookup_keys(identifier: str | None, address: str | None) -> list[tuple[str, str]]:
    host = address and (service.parse_host(address.strip()) or address)
    return [(field, key) for field, key in (("identifier", identifier), ("address", host)) if key]


def _read_values(line: InputLine, reader: RowReader, there: _ExistingNases) -> dict[str, Any] | None:
    before = len(reader.mistakes)
    given: dict[str, Any] = {}
    for name in (*_TEXT_FIELDS, "site", *FLAGS):
        value = line.values.get(name)
        if value is None:
            continue
        if not isinstance(value, bool if name in FLAGS else str):
            reader.wrong(line, name, *WRONG_TYPE[bool if name in FLAGS else str])
            continue
        given[name] = value
    if "name" not in line.values:
        reader.wrong(line, "name", "The name is missing.", "Set a name for each NAS.")
    if (slug := given.pop("site", None)) is not None:
        given["site_id"] = there.sites.get(slug)
        if given["site_id"] is None:
            reader.wrong(
                line, "site", f"Site {slug[:63]!r} does not exist.", Advice("Create the site first.", "createSite")
            )
    return given if len(reader.mistakes) == before else None


def _plan_row(
    made: NasBulkPlan,
    reader: RowReader,
    line: InputLine,
    given: Mapping[str, Any],
    there: _ExistingNases,
    options: NasBulkOptions,
    of: tuple[TenantId, Seal],
) -> None:
    tenant_id, seal = of
    keys = _lookup_keys(given.get("identifier"), given.get("address"))
    meant = list({there.by_key[key].id: there.by_key[key] for key in keys if key in there.by_key}.values())
    if len(meant) > 1:
        reader.wrong(
            line,
            "",
            "The identifier and the address belong to two different NASes.",
            "Remove the identifier or the address from the row.",
        )
    elif not meant:
        with reader.noted(line):
            require_not_reserved("nas", given["name"])
            made.fresh.append(
                service.build_nas(tenant_id=tenant_id, seal=seal, **{"site_id": there.default_site, **given})
            )
            made.planned.append(PlannedRow(line.number, made.fresh[-1].name, "add"))
    elif options.existing == "refuse":
        reader.wrong(line, "", f"NAS {meant[0].name!r} already exists.", EXISTING_REMEDY)
    elif options.existing == "keep":
        made.planned.append(PlannedRow(line.number, meant[0].name, "keep"))
    else:
        with reader.noted(line):
            now = meant[0]
            if given["name"] != now.name:
                require_not_reserved("nas", given["name"])
                _require_not_in_policies(now.name, there)
            stored = {name: getattr(now, name) for name in (*_PLAIN_FIELDS, "site_id")}
            wanted = service.build_nas(
                tenant_id=tenant_id,
                seal=seal,
                kept_secret=now.secret_sealed,
                kept_mab_password=now.mab_password_sealed,
                **{**stored, **given},
            )
            secrets = {name: given[name] for name in SECRETS if name in given}
            same = not secrets and service.describe(wanted) == service.describe(now)
            made.planned.append(PlannedRow(line.number, now.name, "same" if same else "change"))
            if not same:
                made.changed.append((now, wanted, secrets))


def _require_not_in_policies(name: str, there: _ExistingNases) -> None:
    """Raise InvalidInput if a policy refers to this name and no other NAS has this name."""
    there.names[name] -= 1
    if not there.names[name] and name in there.named():
        raise InvalidInput(
            f"Policies refer to {name!r}.", place="name", remedy="Remove the name from the policies first."
        )


def store_nases(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    plan: NasBulkPlan,
    seal: Seal,
    report: ProgressCallback = ignore_progress,
) -> None:
    """Store the plan, with an audit entry for each row. Reports the number of finished rows with `report`."""
    report_stored, report_noted = split_progress(report, len(plan.fresh) + len(plan.changed))
    for start in range(0, len(plan.fresh), _BATCH_ROWS):
        part = plan.fresh[start : start + _BATCH_ROWS]
        session.add_all(part)
        session.flush()
        report_stored(start + len(part))
    entries = [_audit_entry(actor, nas, "add", {}, service.describe(nas)) for nas in plan.fresh]
    for nas, wanted, secrets in plan.changed:
        before = service.describe(nas)
        for name in (*_PLAIN_FIELDS, "site_id"):
            if name != "mab_password":
                setattr(nas, name, getattr(wanted, name))
        # Encrypt the secrets again, because their encryption context is the id of the stored NAS.
        mab.set_mab_password(nas, form=wanted.mab_password, text=secrets.get("mab_password_text"), seal=seal)
        if "secret" in secrets:
            nas.secret_sealed = service.seal_secret(nas, secrets["secret"], seal)
        after = service.describe(nas)
        differing = [name for name in after if after[name] != before[name]]
        shown = [{name: state[name] for name in differing} for state in (before, after)]
        changed = service.describe_changed_secrets(secrets.get("secret"), secrets.get("mab_password_text"))
        entries.append(_audit_entry(actor, nas, "set", shown[0], shown[1] | changed))
    session.flush()
    audit.append_in_batches(session, entries, report_noted)


def _audit_entry(
    actor: str, nas: Nas, verb: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "actor": actor,
        "action": f"nas.{verb}",
        "target": nas.name,
        "tenant_id": nas.tenant_id,
        "before": dict(before),
        "after": dict(after),
    }
