"""`./admit tenant` and `./admit msp`, without a cell."""

import pytest
from sqlalchemy import Engine, select

from nac.kit.db import PlatformScope, session_scope
from nac.models import AuditEntry
from tests.cli.conftest import Admit


def test_created_tenant_is_shown_with_ports_and_secret(cli: Admit) -> None:
    none = cli.run("tenant", "create", "alpha")
    assert (none.exit_code, none.stderr) == (
        1,
        "Error: msp: No MSP exists. Create an MSP: ./admit msp create SLUG\n",
    )
    assert cli.json("msp", "create", "acme", "--name", "Acme Ltd")["name"] == "Acme Ltd"
    # The MSP of trials is never the default.
    cli.json("msp", "create", "trials")
    created = cli.json("tenant", "create", "alpha", "--name", "Alpha GmbH", "--policy", "none")
    assert (created["listeners"]["auth_port"], created["listeners"]["acct_port"]) == (18120, 18121)
    assert (created["status"], created["settings"]["silent_reports"]) == ("active", 3)
    assert len(created["radius_secret"]) == 32
    assert cli.json("tenant", "show", "alpha") == created
    (listed,) = cli.json("tenant", "list")
    assert (listed["slug"], listed["name"], "radius_secret" in listed) == ("alpha", "Alpha GmbH", False)


def test_tenants_beyond_free_slots_are_rejected(alpha: Admit) -> None:
    alpha.json("tenant", "create", "bravo", "--policy", "none")
    result = alpha.run("tenant", "create", "charlie", "--policy", "none")
    assert result.exit_code == 1
    assert "No cell has a free slot (port pair) for another tenant. The slot of a purged tenant" in result.stderr
    alpha.json("tenant", "delete", "bravo", "--purge", "--yes")
    result = alpha.run("tenant", "create", "charlie", "--policy", "none")
    assert "Slots of deleted tenants that wait until radiusd has a new secret: 1." in result.stderr
    assert "Try again in 30 seconds." in result.stderr


def test_tenant_is_suspended_restored_and_purged(
    alpha: Admit, app_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "ann")
    secret = alpha.json("tenant", "show", "alpha")["radius_secret"]
    changes = (("suspend", "suspended"), ("resume", "active"), ("delete", "deleting"), ("resume", "active"))
    for verb, status in changes:
        assert alpha.json("tenant", verb, "alpha")["status"] == status
        assert alpha.json("tenant", "show", "alpha")["radius_secret"] == secret
    assert alpha.run("tenant", "delete", "alpha", "--purge", text="n\n").exit_code == 1
    assert alpha.json("tenant", "delete", "alpha", "--purge", "--yes")["status"] == "purged"
    assert alpha.json("tenant", "list") == []
    assert alpha.run("tenant", "show", "alpha").exit_code == 2
    # Changes through the API and in the database name the same user.
    with session_scope(PlatformScope(), engine=app_engine) as session:
        audited = select(AuditEntry.actor).where(AuditEntry.action.in_(("tenant.suspend", "tenant.delete")))
        assert set(session.scalars(audited)) == {"cli:ann"}


def test_unconfirmed_change_is_stored_and_reported(alpha: Admit) -> None:
    result = alpha.run("site", "add", "berlin", "-t", "alpha")
    assert (result.exit_code, "has not confirmed the change yet" in result.stderr) == (0, True)
    assert [site["slug"] for site in alpha.json("site", "list", "-t", "alpha")] == ["berlin", "main"]
