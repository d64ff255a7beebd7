"""Bulk changes and imports.

The API runs a small change or import directly, and a large change or import as a job (nac.core.jobs). The input of a
job is the original request. One transaction checks the request and stores all rows, as for small requests.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import chain
from typing import Any, TypeVar, cast

from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.jobs import service as jobs
from nac.core.jobs.runner import JobHandler, JobRun, SingleTransactionHandler
from nac.inventory.endpoints import bulk as endpoints
from nac.inventory.endpoints import bulk_actions
from nac.inventory.users import bulk as users
from nac.kit.bulk_rows import InputLine, RowMistake, RowsRefused
from nac.kit.db.error_translation import report_missing_at
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from nac.kit.sealing import Seal
from nac.models import Job
from nac.onboarding.imports import service
from nac.onboarding.imports.document import ImportDocument
from nac.tenancy.nases import bulk as nases

# Maximum number of rows that the API processes without a job, so that it responds within two seconds.
MAX_INLINE_ROWS = 1_000
# Maximum number of users that the API processes without a job, because hashing a password takes about 20 ms.
MAX_INLINE_USERS = 50

T = TypeVar("T")


def preview_import(
    session: Session, *, tenant_id: TenantId, document: ImportDocument, options: service.ImportOptions, seal: Seal
) -> dict[str, Any]:
    """Return the planned changes of an import as JSON, without storing them."""
    return service.describe_plan(
        service.plan_import(session, tenant_id=tenant_id, document=document, options=options, seal=seal)
    ) | {"stored": False}


def run_import(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    form: str,
    document: ImportDocument,
    options: service.ImportOptions,
    seal: Seal,
    report: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Run an import. Returns the changes of the import as JSON (`service.describe_plan`). Raises RowsRefused."""
    plan = service.plan_import(session, tenant_id=tenant_id, document=document, options=options, seal=seal)
    with report_missing_at("file"):
        service.store_plan(session, actor=actor, tenant_id=tenant_id, form=form, plan=plan, seal=seal, report=report)
    return service.describe_plan(plan) | {"stored": True}


def is_large(document: ImportDocument, *, dry_run: bool = False) -> bool:
    """Return whether the import must be a job. A preview can have more users, because it hashes no passwords."""
    groups = count_groups(line.values for line in chain(document.endpoints, document.users))
    return len(document) + groups > MAX_INLINE_ROWS or (not dry_run and len(document.users) > MAX_INLINE_USERS)


def count_groups(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of distinct groups in the rows. Creating a group takes as long as storing a row."""
    return len({name for row in rows for name in row.get("groups") or () if isinstance(name, str)})


def run_bulk(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    operation: str,
    given: Mapping[str, Any],
    seal: Seal,
    report: Callable[[int], None] = lambda done: None,
) -> dict[str, int]:
    """Run the bulk operation `<noun>.<verb>`.

    `given` is the JSON of the request, with `items` and options, or with `macs` and `groups`. Returns the number of
    rows by outcome. Raises RowsRefused, UnknownGroup or GroupByRule.
    """
    owner: dict[str, Any] = {"actor": actor, "tenant_id": tenant_id}
    match operation.partition(".")[::2]:
        case "endpoints", "put":
            options = _pick_options(endpoints.EndpointBulkOptions, given)
            plan = endpoints.plan_endpoints(session, tenant_id=tenant_id, lines=_number_lines(given), options=options)
            _require_no_mistakes(plan.mistakes)
            with report_missing_at("items"):
                endpoints.store_endpoints(session, **owner, plan=plan, report=report)
            return _count_actions(each.action for each in plan.planned)
        case "endpoints", "delete":
            return {"removed": bulk_actions.delete_endpoints(session, **owner, macs=given["macs"], report=report)}
        case "endpoints", "block":
            return {"blocked": bulk_actions.block_endpoints(session, **owner, macs=given["macs"], report=report)}
        case "endpoints", "unblock":
            return {"unblocked": bulk_actions.unblock_endpoints(session, **owner, macs=given["macs"], report=report)}
        case "endpoints", ("set-groups" | "join-groups" | "leave-groups") as how:
            changed = bulk_actions.update_endpoint_groups(
                session, **owner, macs=given["macs"], groups=given["groups"], how=how, report=report
            )
            return {"changed": changed}
        case "users", "put":
            of_users = users.plan_users(
                session,
                tenant_id=tenant_id,
                lines=_number_lines(given),
                options=_pick_options(users.UserBulkOptions, given),
            )
            _require_no_mistakes(of_users.mistakes)
            with report_missing_at("items"):
                users.store_users(session, **owner, plan=of_users, seal=seal, report=report)
            return _count_actions(each.action for each in of_users.planned)
        case "nases", "put":
            of_nases = nases.plan_nases(
                session,
                tenant_id=tenant_id,
                lines=_number_lines(given),
                options=_pick_options(nases.NasBulkOptions, given),
                seal=seal,
            )
            _require_no_mistakes(of_nases.mistakes)
            with report_missing_at("items"):
                nases.store_nases(session, **owner, plan=of_nases, seal=seal, report=report)
            return _count_actions(each.action for each in of_nases.planned)
    raise ValueError(f"unknown bulk operation {operation!r}")


def _number_lines(given: Mapping[str, Any]) -> list[InputLine]:
    return [InputLine(number, values) for number, values in enumerate(given["items"], start=1)]


def _pick_options(kind: type[T], given: Mapping[str, Any]) -> T:
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in given.items() if name in names})


def _require_no_mistakes(mistakes: Sequence[RowMistake]) -> None:
    if mistakes:
        raise RowsRefused(mistakes, place=lambda mistake: mistake.in_list)


_COUNT_NAMES = {"add": "added", "change": "changed", "same": "unchanged", "keep": "kept"}


def _count_actions(actions: Iterable[str]) -> dict[str, int]:
    found = dict.fromkeys(_COUNT_NAMES.values(), 0)
    for action in actions:
        found[_COUNT_NAMES[action]] += 1
    return found


def start_bulk(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    operation: str,
    given: Mapping[str, Any],
    rows: int,
    seal: Seal,
) -> Job:
    noun, _, what = operation.partition(".")
    return jobs.start_job(
        session,
        actor=actor,
        owner=Owner(tenant_id=tenant_id),
        kind="bulk.run",
        title=f"{what} {rows} {noun}",
        input={"operation": operation, "given": given},
        needs=(service.PERMISSIONS[cast(service.ImportNoun, noun)],),
        seal=seal,
        total=rows,
    )


def start_import(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    form: str,
    content: bytes,
    rows: int,
    options: service.ImportOptions,
    seal: Seal,
    dry_run: bool = False,
) -> Job:
    return jobs.start_job(
        session,
        actor=actor,
        owner=Owner(tenant_id=tenant_id),
        kind="import.run",
        title=f"{'Preview of ' if dry_run else ''}{service.FORMATS[form].title}: {rows} rows",
        input={
            "format": form,
            "content": b64encode(content).decode(),
            "options": asdict(options),
            "dry_run": dry_run,
        },
        needs={Permission.ENDPOINT_MANAGE, *(service.PERMISSIONS[noun] for noun in service.FORMATS[form].nouns)},
        seal=seal,
        total=rows,
    )


def build_handlers(seal: Callable[[], Seal]) -> dict[str, JobHandler]:
    """Return the job handlers by kind of job. A handler calls `seal`, which loads the master key, for each job."""

    def bulk(session: Session, work: JobRun) -> Mapping[str, Any]:
        return run_bulk(
            session,
            actor=work.actor,
            tenant_id=_require_tenant_id(work),
            operation=work.input["operation"],
            given=work.input["given"],
            seal=seal(),
            report=work.report,
        )

    def imported(session: Session, work: JobRun) -> Mapping[str, Any]:
        given: dict[str, Any] = {
            "tenant_id": _require_tenant_id(work),
            "document": service.read_document(work.input["format"], b64decode(work.input["content"])),
            "options": service.ImportOptions(**work.input["options"]),
            "seal": seal(),
        }
        if work.input.get("dry_run"):
            return preview_import(session, **given)
        return run_import(session, actor=work.actor, form=work.input["format"], report=work.report, **given)

    return {"bulk.run": SingleTransactionHandler(bulk), "import.run": SingleTransactionHandler(imported)}


def _require_tenant_id(work: JobRun) -> TenantId:
    assert work.owner.tenant_id is not None
    return work.owner.tenant_id
