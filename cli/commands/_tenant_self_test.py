"""`./admit tenant self-test`."""

import time
from uuid import UUID

import click

from cli.command_context import CommandContext
from cli.errors import Refused
from cli.output import Row, json_option, show_json, show_list
from nac.models import SelfTest
from nac.onboarding.self_tests import service as self_tests

_PATIENCE_SECONDS = 60
_POLL_SECONDS = 0.2


@click.command("self-test")
@click.argument("slug")
@json_option
def self_test(slug: str, as_json: bool) -> None:
    """Test the listeners of the tenant SLUG as its switches would, and show the responses.

    Exit status 1 if a response does not match the tenant's policy.
    """
    domain = CommandContext()
    with domain.tenant(slug) as (session, tenant_id):
        test_id = self_tests.start_self_test(session, actor=domain.actor, tenant_id=tenant_id).id
    row = _wait(domain, slug, test_id)
    if as_json:
        show_json({"id": row.id, "state": row.state, "passed": row.passed, "error": row.error, "checks": row.board})
    elif row.error:
        raise Refused(row.error, place="self-test")
    else:
        show_list([_line(check) for check in row.board], as_json=False)
        for check in row.board:
            if not check["ok"]:
                click.echo(f"\n{check['name']}, {check['sent']}: expected {check['expected']} ({check['because']}).")
                click.echo(f"  {check['why']}")
    if not row.passed:
        click.get_current_context().exit(1)


def _wait(domain: CommandContext, slug: str, test_id: UUID) -> SelfTest:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with domain.tenant(slug) as (session, tenant_id):
            row = self_tests.require_self_test(session, tenant_id=tenant_id, test_id=test_id)
        if row.state in ("done", "failed"):
            return row
        if time.monotonic() > deadline:
            raise Refused("The worker did not run the self-test.", place="self-test", remedy="See ./admit status.")
        time.sleep(_POLL_SECONDS)


def _line(check: Row) -> Row:
    return {
        "": "ok" if check["ok"] else "WRONG",
        "check": check["name"],
        "sent": check["sent"],
        "got": check["got"],
        "reason": check["reason"],
        "ms": check["milliseconds"],
    }
