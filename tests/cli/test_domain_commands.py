"""Commands for tenants and their resources, on a real database and without a cell."""

import pytest
from sqlalchemy import Engine, select

from nac.kit.db import PlatformScope, session_scope
from nac.models import AuditEntry
from tests.cli.conftest import Admit


def test_created_tenant_is_shown_with_ports_and_secret(cli: Admit) -> None:
    assert cli.json("msp", "create", "acme", "--name", "Acme Ltd")["name"] == "Acme Ltd"
    # The MSP of trials is never the default.
    cli.json("msp", "create", "trials")
    created = cli.json("tenant", "create", "alpha", "--name", "Alpha GmbH", "--policy", "none")
    assert (created["listeners"]["auth_port"], created["listeners"]["acct_port"]) == (18120, 18121)
    assert (created["status"], created["settings"]["silent_reports"]) == ("active", 3)
    assert len(created["radius_secret"]) == 32
    assert cli.json("tenant", "show", "alpha") == created
    listed = cli.json("tenant", "list")
    assert [(row["slug"], row["name"]) for row in listed] == [("alpha", "Alpha GmbH")]
    assert "radius_secret" not in listed[0]


def test_tenant_without_msp_is_rejected(cli: Admit) -> None:
    result = cli.run("tenant", "create", "alpha")
    assert result.exit_code == 1
    assert result.stderr == "Error: msp: No MSP exists. Create an MSP: ./admit msp create SLUG\n"


def test_tenant_has_the_standard_policy_by_default(with_dictionary: Admit) -> None:
    assert with_dictionary.json("policy", "list", "-t", "alpha") == []
    with_dictionary.json("tenant", "create", "bravo")
    assert [row["published_version"] for row in with_dictionary.json("policy", "list", "-t", "bravo")] == [1]


def test_secret_of_a_stopped_tenant_is_still_shown(alpha: Admit) -> None:
    shown = alpha.json("tenant", "show", "alpha")
    for verb in ("suspend", "delete"):
        alpha.json("tenant", verb, "alpha")
        assert alpha.json("tenant", "show", "alpha")["radius_secret"] == shown["radius_secret"]
    assert alpha.json("tenant", "resume", "alpha")["status"] == "active"


def test_tenants_beyond_free_slots_are_rejected(alpha: Admit) -> None:
    alpha.json("tenant", "create", "bravo", "--policy", "none")
    result = alpha.run("tenant", "create", "charlie", "--policy", "none")
    assert result.exit_code == 1
    assert "No cell has a free slot (port pair) for another tenant. The slot of a purged tenant" in result.stderr
    alpha.json("tenant", "delete", "bravo", "--purge", "--yes")
    result = alpha.run("tenant", "create", "charlie", "--policy", "none")
    assert "Slots of deleted tenants that wait until radiusd has a new secret: 1." in result.stderr
    assert "Try again in 30 seconds." in result.stderr


def test_tenant_is_suspended_resumed_deleted_and_purged(alpha: Admit) -> None:
    for verb, status in (("suspend", "suspended"), ("resume", "active"), ("delete", "deleting")):
        assert alpha.json("tenant", verb, "alpha")["status"] == status
    refused = alpha.run("tenant", "delete", "alpha", "--purge", text="n\n")
    assert refused.exit_code == 1
    assert alpha.json("tenant", "delete", "alpha", "--purge", "--yes")["status"] == "purged"
    assert alpha.json("tenant", "list") == []
    assert alpha.run("tenant", "show", "alpha").exit_code == 2


def test_msp_is_suspended_with_tenants_resumed_and_deleted(alpha: Admit) -> None:
    assert alpha.json("msp", "suspend", "acme", "--with-tenants")["status"] == "suspended"
    assert alpha.json("tenant", "list")[0]["status"] == "suspended"
    assert "The MSP is suspended." in alpha.run("tenant", "create", "bravo").stderr
    assert alpha.json("msp", "resume", "acme")["status"] == "active"
    assert alpha.json("tenant", "list")[0]["status"] == "active"
    refused = alpha.run("msp", "delete", "acme", "--yes")
    assert (refused.exit_code, "has tenants: 1." in refused.stderr) == (1, True)
    alpha.json("tenant", "delete", "alpha", "--purge", "--yes")
    assert alpha.run("msp", "delete", "acme", text="n\n").exit_code == 1
    assert alpha.run("msp", "delete", "acme", "--yes").exit_code == 0
    assert alpha.json("msp", "list") == []


def test_unconfirmed_change_is_stored_and_reported(alpha: Admit) -> None:
    result = alpha.run("site", "add", "berlin", "-t", "alpha")
    assert result.exit_code == 0
    assert "has not confirmed the change yet" in result.stderr
    assert [site["slug"] for site in alpha.json("site", "list", "-t", "alpha")] == ["berlin", "main"]


@pytest.mark.parametrize(
    ("arguments", "listing"),
    [
        (("endpoint", "block", "001122334455", "-t", "alpha"), "./admit endpoint list"),
        (("site", "remove", "none", "-t", "alpha"), "./admit site list"),
        (("nas", "remove", "none", "-t", "alpha"), "./admit nas list"),
        (("cert", "revoke", "0a", "-t", "alpha"), "./admit cert list"),
        (("ca", "show", "none", "-t", "alpha"), "./admit ca list"),
        (("policy", "show", "-s", "none", "-t", "alpha"), "./admit policy list"),
        (("tenant", "show", "none"), "./admit tenant list"),
        (("tenant", "create", "new", "--msp", "none"), "./admit msp list"),
    ],
)
def test_unknown_name_error_names_the_list_command(alpha: Admit, arguments: tuple[str, ...], listing: str) -> None:
    result = alpha.run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.rstrip().endswith(f": {listing}")
    assert (
        alpha.run(*listing.split()[1:], *arguments[arguments.index("-t") :] if "-t" in arguments else ()).exit_code == 0
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("endpoint", "add", "001122334455", "-t", "alpha", "--until", "2001-02-03"),
            "--until: 2001-02-03 00:00:00 UTC is in the past. Use a time in the future.",
        ),
        (
            ("user", "add", "ann", "-t", "alpha", "--password", "correct horse", "--valid-until", "2001-02-03"),
            "--valid-until: 2001-02-03 00:00:00 UTC is in the past.",
        ),
        (("endpoint", "add", "00:11", "-t", "alpha"), "MAC: Invalid MAC address '00:11'."),
        (("endpoint", "add", "001122334455", "-t", "alpha", "--group", "x"), "--group: Unknown groups: 'x'."),
        (("site", "add", "Main", "-t", "alpha"), "SLUG: Invalid format."),
        (("nas", "add", "core-1", "-t", "alpha"), "--identifier: A NAS needs an identifier"),
        (("site", "list", "-t", "nobody"), "--tenant: This tenant does not exist."),
    ],
)
def test_invalid_input_prints_one_sentence_and_exits_2(
    alpha: Admit, arguments: tuple[str, ...], complaint: str
) -> None:
    result = alpha.run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {complaint}")
    assert len(result.stderr.splitlines()) == 1


def test_changes_are_audited_with_the_user(alpha: Admit, app_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ann")
    alpha.json("site", "add", "berlin", "-t", "alpha")
    with session_scope(PlatformScope(), engine=app_engine) as session:
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)).one()
    assert (entry.actor, entry.action, entry.target) == ("cli:ann", "site.add", "berlin")
