"""`./admit job`."""

from typing import Any
from uuid import UUID

import click

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_list, show_one
from cli.owners import owner_options, owner_scope
from nac.core.jobs import service as jobs
from nac.models import Job


@click.group()
def command() -> None:
    """Manage background jobs of a tenant, an MSP or, by default, the platform."""


_id = click.argument("job_id", metavar="ID", type=click.UUID)


def _row(row: Job) -> Row:
    return {
        "id": row.id,
        "kind": row.kind,
        "title": row.title,
        "state": row.state,
        "done": row.done,
        "total": row.total,
        "asked_by": row.asked_by,
        "asked": row.created_at,
        "ended": row.ended_at,
        "detail": (row.problem or {}).get("detail", ""),
    }


def _details(row: Job) -> Row:
    details = {"result": row.result, "problem": row.problem, "started": row.started_at, "request_id": row.request_id}
    return {**_row(row), **details}


@command.command("list")
@click.option("--state", "states", type=click.Choice(jobs.STATES), multiple=True, help="State of the jobs; repeatable.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@owner_options
@json_option
def list_(as_json: bool, states: tuple[str, ...], limit: int, **owner: Any) -> None:  # noqa: ANN401
    """List jobs, newest first. Finished jobs are deleted after 30 days.

    Without --tenant or --msp, lists the platform's own jobs. With --msp, includes the MSP's tenants.
    """
    with owner_scope(CommandContext(), **owner) as (session, of):
        rows = [_row(row) for row in jobs.list_jobs(session, owner=of, states=states, span=jobs.ORDERS.first(limit))]
    show_list(rows, as_json=as_json)


@command.command()
@_id
@owner_options
@json_option
def show(job_id: UUID, as_json: bool, **owner: Any) -> None:  # noqa: ANN401
    """Show the job ID: progress and result."""
    with owner_scope(CommandContext(), **owner) as (session, of):
        row = _details(jobs.require_job(session, owner=of, job_id=job_id))
    show_one(row, as_json=as_json)


@command.command()
@_id
@owner_options
@json_option
def cancel(job_id: UUID, as_json: bool, **owner: Any) -> None:  # noqa: ANN401
    """Cancel the job ID. A running job stops at its next step."""
    domain = CommandContext()
    with owner_scope(domain, **owner) as (session, of):
        row = _details(jobs.cancel_job(session, actor=domain.actor, owner=of, job_id=job_id))
    show_one(row, as_json=as_json)


@command.command()
@_id
@owner_options
@json_option
def retry(job_id: UUID, as_json: bool, **owner: Any) -> None:  # noqa: ANN401
    """Retry the failed job ID from where it stopped."""
    domain = CommandContext()
    with owner_scope(domain, **owner) as (session, of):
        row = _details(jobs.retry_job(session, actor=domain.actor, owner=of, job_id=job_id))
    show_one(row, as_json=as_json)
