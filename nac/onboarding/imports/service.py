"""Service for imports of files into a tenant.

Parses a file, compares its rows with the stored objects, and stores all changes in one transaction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.endpoints import bulk as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS, MAX_NEW_GROUPS, USER_GROUPS
from nac.inventory.users import bulk as users
from nac.kit.bulk_rows import OnExisting, PlannedRow, RowMistake, RowsRefused, select_reported
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from nac.kit.sealing import Seal
from nac.onboarding.imports import admit_csv, freeradius_clients, freeradius_users, ise, packetfence
from nac.onboarding.imports.document import ImportDocument, ImportNote, decode_text, unreadable_at
from nac.tenancy.nases import bulk as nases

FormatName = Literal[
    "endpoints", "nases", "users", "freeradius-clients", "freeradius-users", "packetfence-nodes", "ise-endpoints"
]
ImportNoun = Literal["endpoints", "nases", "users"]
OnMistake = Literal["refuse", "leave-out"]
# Maximum number of rows in the report of an import or preview.
MAX_REPORTED_ROWS = 1_000


class ImportFormat(NamedTuple):
    title: str
    read: Callable[[str, ImportDocument], None]
    # Kinds of objects that a file of this format contains.
    nouns: tuple[ImportNoun, ...]


FORMATS: Mapping[str, ImportFormat] = {
    "endpoints": ImportFormat("Endpoints, CSV or JSON lines", admit_csv.read_endpoints, ("endpoints",)),
    "nases": ImportFormat("NASes, CSV", admit_csv.read_nases, ("nases",)),
    "users": ImportFormat("Users, CSV", admit_csv.read_users, ("users",)),
    "freeradius-clients": ImportFormat("FreeRADIUS clients.conf", freeradius_clients.read, ("nases",)),
    "freeradius-users": ImportFormat("FreeRADIUS users", freeradius_users.read, ("users", "endpoints")),
    "packetfence-nodes": ImportFormat("PacketFence nodes, CSV", packetfence.read, ("endpoints",)),
    "ise-endpoints": ImportFormat("Cisco ISE endpoints, CSV", ise.read, ("endpoints",)),
}
PERMISSIONS: Mapping[ImportNoun, Permission] = {
    "endpoints": Permission.ENDPOINT_MANAGE,
    "nases": Permission.NAS_MANAGE,
    "users": Permission.USER_MANAGE,
}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    existing: OnExisting = "refuse"
    # Whether to create missing groups.
    make_groups: bool = False
    # Whether to approve endpoints with random (locally administered) MAC addresses.
    allow_random: bool = False
    # Whether to store users' passwords in the forms that CHAP and MS-CHAP need. The form for PAP is always stored.
    chap: bool = False
    mschap: bool = False
    # What to do with lines that have mistakes: reject the whole file, or skip these lines.
    wrong: OnMistake = "refuse"


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The changes that an import would store. The objects to change stay locked until the transaction ends."""

    document: ImportDocument
    endpoints: endpoints.EndpointBulkPlan
    nases: nases.NasBulkPlan
    users: users.UserBulkPlan

    @property
    def mistakes(self) -> list[RowMistake]:
        parts = (self.endpoints.mistakes, self.nases.mistakes, self.users.mistakes)
        return sorted(sum(parts, self.document.mistakes))

    def planned(self) -> dict[ImportNoun, Sequence[PlannedRow]]:
        """Return the planned rows by kind of object. Rows with mistakes are not included."""
        return {
            "endpoints": _rows_without_mistakes(self.endpoints),
            "nases": _rows_without_mistakes(self.nases),
            "users": _rows_without_mistakes(self.users),
        }


def _rows_without_mistakes(
    plan: endpoints.EndpointBulkPlan | nases.NasBulkPlan | users.UserBulkPlan,
) -> Sequence[PlannedRow]:
    wrong = {each.number for each in plan.mistakes}
    return [each for each in plan.planned if each.number not in wrong] if wrong else plan.planned


def read_document(form: str, content: bytes) -> ImportDocument:
    """Parse a file in the format `form`. Reads no other files, and not the database. Raises Unreadable."""
    document = ImportDocument()
    text = decode_text(content, document)
    if text.strip():
        FORMATS[form].read(text, document)
    if not len(document) and not document.mistakes and not document.noted:
        raise unreadable_at(0, "The file is empty.")
    return document


def plan_import(
    session: Session, *, tenant_id: TenantId, document: ImportDocument, options: ImportOptions, seal: Seal
) -> ImportPlan:
    """Plan an import, without changing anything. Raises TooManyGroups."""
    made = _plan_all(session, tenant_id, document, options, seal)
    while options.wrong == "leave-out" and (wrong := _mistakes_to_leave_out(made.mistakes)):
        document = document.without(wrong)
        made = _plan_all(session, tenant_id, document, options, seal)
    if not made.mistakes:
        # Check this now, because a preview must report all errors of the import.
        ENDPOINT_GROUPS.require_creatable(session, tenant_id=tenant_id, names=made.endpoints.missing_groups)
        USER_GROUPS.require_creatable(session, tenant_id=tenant_id, names=made.users.missing_groups)
    return made


def _mistakes_to_leave_out(mistakes: Sequence[RowMistake]) -> list[RowMistake]:
    """Return the mistakes whose lines the import skips.

    If a line conflicts only with a skipped line, it becomes valid, so the result does not contain its mistake. If a
    mistake concerns the whole file, returns an empty list.
    """
    alone = {each.number for each in mistakes if each.number and not each.beside}
    found = [each for each in mistakes if each.beside not in alone]
    return found if any(each.number for each in found) else []


def _plan_all(
    session: Session, tenant_id: TenantId, document: ImportDocument, options: ImportOptions, seal: Seal
) -> ImportPlan:
    arguments = (options.make_groups, options.allow_random, options.existing)
    return ImportPlan(
        document,
        endpoints.plan_endpoints(
            session, tenant_id=tenant_id, lines=document.endpoints, options=endpoints.EndpointBulkOptions(*arguments)
        ),
        nases.plan_nases(
            session,
            tenant_id=tenant_id,
            lines=document.nases,
            options=nases.NasBulkOptions(options.existing),
            seal=seal,
        ),
        users.plan_users(
            session,
            tenant_id=tenant_id,
            lines=document.users,
            options=users.UserBulkOptions(options.make_groups, options.existing, options.chap, options.mschap),
        ),
    )


def store_plan(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    form: str,
    plan: ImportPlan,
    seal: Seal,
    report: Callable[[int], None] = lambda done: None,
) -> None:
    """Store the planned changes. Calls `report` with the number of stored rows.

    Raises RowsRefused with every mistake.
    """
    if plan.mistakes:
        raise RowsRefused(plan.mistakes, place=lambda mistake: mistake.in_line)
    owner: dict[str, Any] = {"actor": actor, "tenant_id": tenant_id}
    endpoints.store_endpoints(session, **owner, plan=plan.endpoints, report=report)
    of_endpoints = len(plan.endpoints.planned)
    nases.store_nases(session, **owner, plan=plan.nases, seal=seal, report=lambda done: report(of_endpoints + done))
    before_users = of_endpoints + len(plan.nases.planned)
    report(before_users)
    users.store_users(session, **owner, plan=plan.users, seal=seal, report=lambda done: report(before_users + done))
    audit.append(session, **owner, action="import.run", target=FORMATS[form].title, after=count_rows(plan))


def count_rows(plan: ImportPlan) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for noun, planned in plan.planned().items():
        actions = [each.action for each in planned]
        if actions:
            found[noun] = {action: actions.count(action) for action in ("add", "change", "same", "keep")}
    found["endpoint_groups"] = list(plan.endpoints.missing_groups[:MAX_NEW_GROUPS])
    found["user_groups"] = list(plan.users.missing_groups[:MAX_NEW_GROUPS])
    return found


def describe_plan(plan: ImportPlan) -> dict[str, Any]:
    """Return the planned change of each line as JSON without secrets, for at most `MAX_REPORTED_ROWS` lines."""
    rows = sorted(
        (each.number, noun, each.name, each.action) for noun, planned in plan.planned().items() for each in planned
    )
    mistakes = plan.mistakes
    return {
        "counts": count_rows(plan),
        "rows": [_zip_names(("line", "noun", "name", "action"), row) for row in rows[:MAX_REPORTED_ROWS]],
        "rows_in_all": len(rows),
        "notes": _describe_notes(plan.document.notes),
        "notes_in_all": plan.document.noted,
        "mistakes": [
            {"line": each.number, "field": each.field, "detail": each.sentence(), "remedy": each.remedy}
            for each in select_reported(mistakes)
        ],
        "mistakes_in_all": len(mistakes),
    }


def _describe_notes(notes: Iterable[ImportNote]) -> list[dict[str, Any]]:
    return [{"line": note.line, "text": note.text} for note in notes]


def _zip_names(names: Sequence[str], values: Sequence[object]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))
