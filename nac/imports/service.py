"""Files of other programs and our own, into a tenant: read, compared with what there is, and stored as a whole."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy.orm import Session

from nac.accounts.permissions import Permission
from nac.audit import service as audit
from nac.endpoints import bulk as endpoints
from nac.groups import ENDPOINT_GROUPS, MOST_NEW_GROUPS, USER_GROUPS
from nac.ids import TenantId
from nac.imports import freeradius_clients, freeradius_users, ise, own, packetfence
from nac.imports.document import Document, Note, decode, refuse
from nac.nases import bulk as nases
from nac.rows import Existing, Planned, RowMistake, RowsRefused, told
from nac.sealing import Seal
from nac.users import bulk as users

FormatName = Literal[
    "endpoints", "nases", "users", "freeradius-clients", "freeradius-users", "packetfence-nodes", "ise-endpoints"
]
Noun = Literal["endpoints", "nases", "users"]
Wrong = Literal["refuse", "leave-out"]
# Of rows that a preview lists.
MOST_ROWS_SHOWN = 1_000


class Format(NamedTuple):
    title: str
    read: Callable[[str, Document], None]
    # What may come of it.
    nouns: tuple[Noun, ...]


FORMATS: Mapping[str, Format] = {
    "endpoints": Format("Endpoints, CSV or JSON lines", own.read_endpoints, ("endpoints",)),
    "nases": Format("NASes, CSV", own.read_nases, ("nases",)),
    "users": Format("Users, CSV", own.read_users, ("users",)),
    "freeradius-clients": Format("FreeRADIUS clients.conf", freeradius_clients.read, ("nases",)),
    "freeradius-users": Format("FreeRADIUS users", freeradius_users.read, ("users", "endpoints")),
    "packetfence-nodes": Format("Nodes of PacketFence, CSV", packetfence.read, ("endpoints",)),
    "ise-endpoints": Format("Endpoints of Cisco ISE, CSV", ise.read, ("endpoints",)),
}
PERMISSIONS: Mapping[Noun, Permission] = {
    "endpoints": Permission.ENDPOINT_MANAGE,
    "nases": Permission.NAS_MANAGE,
    "users": Permission.USER_MANAGE,
}


@dataclass(frozen=True, slots=True)
class Options:
    existing: Existing = "refuse"
    # Groups that there are not are made.
    make_groups: bool = False
    # Approve addresses that devices made up, too.
    allow_random: bool = False
    # What users' passwords are stored for, besides PAP.
    chap: bool = False
    mschap: bool = False
    # What becomes of the file where lines of it are wrong: nothing of it, or all but these.
    wrong: Wrong = "refuse"


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a document. Locks are held until the transaction ends."""

    document: Document
    endpoints: endpoints.Plan
    nases: nases.Plan
    users: users.Plan

    @property
    def mistakes(self) -> list[RowMistake]:
        parts = (self.endpoints.mistakes, self.nases.mistakes, self.users.mistakes)
        return sorted(sum(parts, self.document.mistakes))

    def planned(self) -> dict[Noun, Sequence[Planned]]:
        """Nothing becomes of a row with mistakes."""
        return {
            "endpoints": _without_mistakes(self.endpoints),
            "nases": _without_mistakes(self.nases),
            "users": _without_mistakes(self.users),
        }


def _without_mistakes(plan: endpoints.Plan | nases.Plan | users.Plan) -> Sequence[Planned]:
    wrong = {each.number for each in plan.mistakes}
    return [each for each in plan.planned if each.number not in wrong] if wrong else plan.planned


def read(form: str, content: bytes) -> Document:
    """Reads no other file and no database. Raises Unreadable."""
    document = Document()
    text = decode(content, document)
    if text.strip():
        FORMATS[form].read(text, document)
    if not len(document) and not document.mistakes and not document.noted:
        raise refuse(0, "There is nothing in it.")
    return document


def plan(session: Session, *, tenant_id: TenantId, document: Document, options: Options, seal: Seal) -> Plan:
    """Changes nothing. Raises TooManyGroups."""
    made = _plan(session, tenant_id, document, options, seal)
    while options.wrong == "leave-out" and (wrong := _left_out(made.mistakes)):
        document = document.without(wrong)
        made = _plan(session, tenant_id, document, options, seal)
    if not made.mistakes:
        # A preview says what the import would.
        ENDPOINT_GROUPS.require_makeable(session, tenant_id=tenant_id, names=made.endpoints.missing_groups)
        USER_GROUPS.require_makeable(session, tenant_id=tenant_id, names=made.users.missing_groups)
    return made


def _left_out(mistakes: Sequence[RowMistake]) -> list[RowMistake]:
    """Of lines that are wrong whatever the others say: what is wrong of a line may be that another is there, and right
    once that one is not. None where no line is at fault, but all of the file."""
    alone = {each.number for each in mistakes if each.number and not each.beside}
    found = [each for each in mistakes if each.beside not in alone]
    return found if any(each.number for each in found) else []


def _plan(session: Session, tenant_id: TenantId, document: Document, options: Options, seal: Seal) -> Plan:
    given = (options.make_groups, options.allow_random, options.existing)
    return Plan(
        document,
        endpoints.plan(session, tenant_id=tenant_id, lines=document.endpoints, options=endpoints.Options(*given)),
        nases.plan(
            session, tenant_id=tenant_id, lines=document.nases, options=nases.Options(options.existing), seal=seal
        ),
        users.plan(
            session,
            tenant_id=tenant_id,
            lines=document.users,
            options=users.Options(options.make_groups, options.existing, options.chap, options.mschap),
        ),
    )


def store(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    form: str,
    plan: Plan,
    seal: Seal,
    tell: Callable[[int], None] = lambda done: None,
) -> None:
    """All of it. Raises RowsRefused with every mistake. `tell`: how many rows are stored."""
    if plan.mistakes:
        raise RowsRefused(plan.mistakes, place=lambda mistake: mistake.in_line)
    who: dict[str, Any] = {"actor": actor, "tenant_id": tenant_id}
    endpoints.store(session, **who, plan=plan.endpoints, tell=tell)
    of_endpoints = len(plan.endpoints.planned)
    nases.store(session, **who, plan=plan.nases, seal=seal, tell=lambda done: tell(of_endpoints + done))
    before_users = of_endpoints + len(plan.nases.planned)
    tell(before_users)
    users.store(session, **who, plan=plan.users, seal=seal, tell=lambda done: tell(before_users + done))
    audit.append(session, **who, action="import.run", target=FORMATS[form].title, after=counts(plan))


def counts(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for noun, planned in plan.planned().items():
        actions = [each.action for each in planned]
        if actions:
            found[noun] = {action: actions.count(action) for action in ("add", "change", "same", "keep")}
    found["endpoint_groups"] = list(plan.endpoints.missing_groups[:MOST_NEW_GROUPS])
    found["user_groups"] = list(plan.users.missing_groups[:MOST_NEW_GROUPS])
    return found


def report(plan: Plan) -> dict[str, Any]:
    """What becomes of it, line by line, as far as `MOST_ROWS_SHOWN` goes; JSON without secrets."""
    rows = sorted(
        (each.number, noun, each.name, each.action) for noun, planned in plan.planned().items() for each in planned
    )
    mistakes = plan.mistakes
    return {
        "counts": counts(plan),
        "rows": [_named(("line", "noun", "name", "action"), row) for row in rows[:MOST_ROWS_SHOWN]],
        "rows_in_all": len(rows),
        "notes": _notes(plan.document.notes),
        "notes_in_all": plan.document.noted,
        "mistakes": [
            {"line": each.number, "field": each.field, "detail": each.sentence(), "remedy": each.remedy}
            for each in told(mistakes)
        ],
        "mistakes_in_all": len(mistakes),
    }


def _notes(notes: Iterable[Note]) -> list[dict[str, Any]]:
    return [{"line": note.line, "text": note.text} for note in notes]


def _named(names: Sequence[str], values: Sequence[object]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))
