"""Commands for tenants and their resources, on a real database and without a cell."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.orm import Session

from nac.kit.db import PlatformScope, session_scope
from nac.models import AuditEntry, Policy, Tenant
from tests.cli.conftest import Admit


def test_created_tenant_is_shown_with_ports_and_secret(cli: Admit) -> None:
    assert cli.json("msp", "create", "acme", "--name", "Acme Ltd")["name"] == "Acme Ltd"
    # The MSP of trials is never the default.
    cli.json("msp", "create", "trials")
    created = cli.json("tenant", "create", "alpha", "--name", "Alpha GmbH")
    assert (created["auth_port"], created["acct_port"], created["status"]) == (18120, 18121, "active")
    assert len(created["radius_secret"]) == 32
    assert cli.json("tenant", "show", "alpha") == created
    listed = cli.json("tenant", "list")
    assert [(row["slug"], row["cell"], row["slot"]) for row in listed] == [("alpha", created["cell"], 0)]
    assert "radius_secret" not in listed[0]


def test_tenant_without_msp_is_rejected(cli: Admit) -> None:
    result = cli.run("tenant", "create", "alpha")
    assert result.exit_code == 1
    assert result.stderr == "Error: msp: No MSP exists. Create one: ./admit msp create SLUG\n"


def test_tenants_beyond_free_slots_are_rejected(alpha: Admit) -> None:
    alpha.json("tenant", "create", "bravo")
    result = alpha.run("tenant", "create", "charlie")
    assert result.exit_code == 1
    assert "No cell has a free slot. The slot of a purged tenant becomes free" in result.stderr
    alpha.json("tenant", "delete", "bravo", "--purge", "--yes")
    result = alpha.run("tenant", "create", "charlie")
    assert "1 slots of deleted tenants wait until radiusd has a new secret" in result.stderr
    assert "Try again in 30 seconds." in result.stderr


def test_tenant_is_suspended_resumed_deleted_and_purged(alpha: Admit) -> None:
    for verb, status in (("suspend", "suspended"), ("resume", "active"), ("delete", "deleting")):
        assert alpha.json("tenant", verb, "alpha") == {"slug": "alpha", "status": status}
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
    assert "has not confirmed it in time" in result.stderr
    assert [site["slug"] for site in alpha.json("site", "list", "-t", "alpha")] == ["berlin", "main"]


def test_site_enters_monitor_mode_with_its_fallback(alpha: Admit, tmp_path: Path) -> None:
    alpha.json("site", "add", "berlin", "-t", "alpha", "--monitor")
    of = {row["slug"]: row for row in alpha.json("site", "list", "-t", "alpha")}
    assert (of["berlin"]["mode"], of["main"]["mode"]) == ("monitor", "enforce")
    assert [row["fallback"] for row in of.values()] == [None, None]
    row = alpha.json("site", "set", "berlin", "-t", "alpha", "--no-monitor", "--time-zone", "Europe/Berlin")
    assert (row["mode"], row["time_zone"]) == ("enforce", "Europe/Berlin")
    both = alpha.run("site", "set", "berlin", "-t", "alpha", "--no-fallback", "--fallback", "-", text="{}")
    assert both.exit_code == 2


def test_invalid_fallback_lists_errors_and_stores_nothing(with_dictionary: Admit) -> None:
    bad = '{"verdict": "permit", "vlan": "0", "role": ""}'
    arguments = ("site", "set", "main", "-t", "alpha", "--monitor", "--fallback", "-")
    result = with_dictionary.run(*arguments, text=bad)
    assert result.exit_code == 2
    assert "  fallback.vlan: must be a VLAN id from 1 to 4094" in result.stderr
    assert "  fallback.role: must be a name on the NAS" in result.stderr
    (row,) = with_dictionary.json("site", "list", "-t", "alpha")
    assert (row["mode"], row["fallback"]) == ("enforce", None)
    answer = json.loads(with_dictionary.run(*arguments, "--json", text=bad).stdout)
    assert {mistake["place"] for mistake in answer["mistakes"]} == {"fallback.vlan", "fallback.role"}
    assert with_dictionary.run(*arguments, text='{"verdict": "permit", "vlan": "9"}').exit_code == 0
    (row,) = with_dictionary.json("site", "list", "-t", "alpha")
    assert (row["mode"], row["fallback"]) == ("monitor", {"verdict": "permit", "vlan": "9"})
    assert '{"verdict": "permit", "vlan": "9"}' in with_dictionary.run("site", "list", "-t", "alpha").stdout
    assert with_dictionary.run("site", "set", "main", "-t", "alpha", "--no-fallback").exit_code == 0
    assert with_dictionary.json("site", "list", "-t", "alpha")[0]["fallback"] is None


def test_vendors_are_listed_and_unknown_ones_noted(alpha: Admit) -> None:
    rows = {row["vendor"]: row for row in alpha.json("nas", "vendors")}
    assert rows["aruba"]["role"] == "Aruba-User-Role"
    assert rows["unifi"]["role"] == "roles by RADIUS are not supported; use vlan"
    shown = alpha.run("nas", "vendors").stdout
    assert "Cisco Systems" in shown
    known = alpha.run("nas", "add", "core", "-t", "alpha", "--identifier", "core", "--vendor", "Cisco Systems")
    assert "Unknown vendor" not in known.stderr
    other = alpha.run("nas", "add", "ap", "-t", "alpha", "--identifier", "ap", "--vendor", "Acme")
    assert "Note: Unknown vendor 'acme': the NAS gets standard RADIUS attributes" in other.stderr


def test_nas_without_support_for_its_policy_is_noted(with_dictionary: Admit) -> None:
    of_alpha = ("-t", "alpha")
    document = {"fallback": {"verdict": "permit", "acl": "GUEST"}}
    checked = with_dictionary.run("policy", "check", "-", *of_alpha, text=json.dumps(document))
    assert "Note: fallback.acl: UniFi: ACLs by RADIUS are not supported" in checked.stderr
    assert with_dictionary.run("policy", "save", "-", *of_alpha, "-s", "p", text=json.dumps(document)).exit_code == 0
    assert with_dictionary.run("policy", "publish", *of_alpha, "-s", "p").exit_code == 0
    assert with_dictionary.run("policy", "assign", *of_alpha, "-s", "p", "--site", "main").exit_code == 0
    added = with_dictionary.run("nas", "add", "ap", *of_alpha, "--identifier", "ap", "--vendor", "unifi")
    assert added.exit_code == 0
    assert (
        "Note: devices at this site will be rejected in some cases of the policy: fallback.acl: UniFi" in added.stderr
    )
    again = with_dictionary.run("policy", "rollback", *of_alpha, "-s", "p", "--version", "1")
    assert again.exit_code == 1


def test_nas_is_created_listed_updated_and_deleted(alpha: Admit) -> None:
    result = alpha.run(
        "nas", "add", "core-1", "-t", "alpha", "--address", "192.0.2.7", "--secret", text="sixteen-octets-x\n" * 2
    )
    assert result.exit_code == 0, result.output
    assert alpha.json("nas", "list", "-t", "alpha") == [
        {
            "name": "core-1",
            "site": "main",
            "identifier": None,
            "address": "192.0.2.7",
            "vendor": "",
            "own_secret": True,
            "require_message_authenticator": True,
            "behind_nat": False,
            "signs_coa_answers": False,
            "mab_password": "mac",
            "mab_by_name": False,
            "signing": "",
        }
    ]
    changed = alpha.json(
        "nas", "set", "192.0.2.7", "-t", "alpha", "--behind-nat", "--tenant-secret", "--vendor", "Aruba"
    )
    assert changed == alpha.json("nas", "list", "-t", "alpha")[0]
    assert (changed["behind_nat"], changed["own_secret"], changed["vendor"]) == (True, False, "aruba")
    both = alpha.run(
        "nas", "set", "192.0.2.7", "-t", "alpha", "--tenant-secret", "--secret", text="s" * 16 + "\n" + "s" * 16
    )
    assert both.exit_code == 2
    mab = ("nas", "set", "192.0.2.7", "-t", "alpha", "--mab-by-name", "--mab-password")
    fixed = alpha.run(*mab, "fixed", "--mab-text", "NOPASSWORD")
    assert "NOPASSWORD" not in fixed.stdout
    changed = alpha.json("nas", "list", "-t", "alpha")[0]
    assert (changed["mab_password"], changed["mab_by_name"]) == ("fixed", True)
    assert alpha.json(*mab, "empty")["mab_password"] == "empty"
    assert alpha.run(*mab, "fixed", "--json").exit_code == 2
    alpha.json("nas", "remove", "192.0.2.7", "-t", "alpha")
    assert alpha.run("nas", "list", "-t", "alpha").stdout == "none\n"


def test_exempt_nas_shows_signing_until_enforced(alpha: Admit, owner_engine: Engine) -> None:
    nas = ("192.0.2.7", "-t", "alpha")
    alpha.json("nas", "add", "core-1", "-t", "alpha", "--address", nas[0], "--without-message-authenticator")
    assert alpha.json("nas", "list", "-t", "alpha")[0]["signing"] == ""
    with owner_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO nas_signatures SELECT id, tenant_id, now() - interval '6 days', '2026-01-01 10:00Z',"
                " '2026-01-08 10:00Z' FROM nases"
            )
        )
    [listed] = alpha.json("nas", "list", "-t", "alpha")
    assert listed["signing"] == "signs since 2026-01-01 10:00 UTC, safe to enforce"
    enforced = alpha.run("nas", "set", *nas, "--with-message-authenticator")
    assert "Note: it sent a request without Message-Authenticator at " in enforced.stderr
    assert alpha.json("nas", "list", "-t", "alpha")[0] == listed | {
        "require_message_authenticator": True,
        "signing": "",
    }
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE nas_signatures SET last_unsigned_at = now() - interval '8 days'"))
    assert "Message-Authenticator" not in alpha.run("nas", "set", *nas, "--reachable").stderr


def test_endpoint_lifecycle_with_groups_and_blocking(alpha: Admit) -> None:
    of_alpha = ("-t", "alpha")
    alpha.json("endpoint-group", "add", "printers", *of_alpha)
    added = alpha.json("endpoint", "add", "0011.2233.4455", *of_alpha, "--group", "printers", "--name", "Printer")
    assert (added["mac"], added["groups"], added["status"]) == ("00:11:22:33:44:55", ["printers"], "active")
    assert alpha.json("endpoint", "block", "001122334455", *of_alpha)["status"] == "blocked"
    assert alpha.json("endpoint", "unblock", "001122334455", *of_alpha)["status"] == "active"
    assert alpha.json("endpoint", "set-groups", "001122334455", *of_alpha)["groups"] == []
    table = alpha.run("endpoint", "list", *of_alpha).stdout.splitlines()
    assert table[1].split()[:5] == ["00:11:22:33:44:55", "Printer", "active", "-", "-"]
    alpha.json("endpoint", "remove", "001122334455", *of_alpha)
    assert alpha.json("endpoint", "list", *of_alpha) == []


def test_user_is_created_with_a_prompted_password(alpha: Admit) -> None:
    result = alpha.run("user", "add", "Ann", "-t", "alpha", "--chap", text="correct horse\n" * 2)
    assert result.exit_code == 0, result.output
    listed = alpha.json("user", "list", "-t", "alpha")
    assert [(row["name"], row["chap"]) for row in listed] == [("ann", True)]
    alpha.json("user", "remove", "ANN", "-t", "alpha")
    assert alpha.json("user", "list", "-t", "alpha") == []


def test_nt_hash_is_stored_only_on_request(alpha: Admit) -> None:
    of_alpha = ("-t", "alpha", "--password", "correct horse")
    assert alpha.json("user", "add", "ann", *of_alpha)["mschap"] is False
    assert alpha.json("user", "add", "ben", *of_alpha, "--allow-mschap")["mschap"] is True
    assert alpha.json("user", "password", "ann", *of_alpha, "--mschap")["mschap"] is True
    assert alpha.json("user", "password", "ben", *of_alpha)["mschap"] is True
    assert alpha.json("user", "password", "ben", *of_alpha, "--no-mschap")["mschap"] is False


def test_weak_methods_show_their_risk(alpha: Admit) -> None:
    result = alpha.run(
        "tenant", "set", "alpha", "--methods", "eap-tls,peap-mschapv2", "--tls-versions", "1.3", "--json"
    )
    assert result.exit_code == 0, result.output
    assert "Note: An attacker who imitates the network can test PEAP passwords offline" in result.stderr
    for shown in (alpha.json("tenant", "show", "alpha"), alpha.json("tenant", "list")[0]):
        assert (shown["methods"], shown["tls_versions"]) == (["eap-tls", "peap-mschapv2"], ["1.3"])
    result = alpha.run("tenant", "set", "alpha", "--methods", "eap-tls")
    assert "PEAP" not in result.stderr
    assert alpha.json("tenant", "show", "alpha")["tls_versions"] == ["1.3"]


def test_failure_limits_are_set_and_shown(alpha: Admit) -> None:
    limits = {
        "failure_limit": 50,
        "failure_window_seconds": 120,
        "password_failure_limit": 10,
        "password_failure_window_seconds": 600,
    }
    options = [word for name, value in limits.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert alpha.run("tenant", "set", "alpha", *options).exit_code == 0
    assert alpha.json("tenant", "show", "alpha").items() >= limits.items()
    result = alpha.run("tenant", "set", "alpha", "--password-failure-limit", "0")
    assert result.exit_code == 2
    assert "password_failure_limit" in result.stderr


def test_invalid_methods_list_all_errors_and_store_nothing(alpha: Admit) -> None:
    before = alpha.json("tenant", "show", "alpha")
    result = alpha.run("tenant", "set", "alpha", "--methods", "eap-tls,leap", "--tls-versions", "1.1")
    assert result.exit_code == 2
    assert "Unknown: 'leap'." in result.stderr
    assert "Unknown: '1.1'." in result.stderr
    assert alpha.run("tenant", "set", "alpha").exit_code == 2
    assert alpha.json("tenant", "show", "alpha") == before


def test_user_is_blocked_unblocked_and_gets_a_password(alpha: Admit, app_engine: Engine) -> None:
    alpha.json("user", "add", "ann", "-t", "alpha", "--password", "correct horse")
    assert alpha.json("user", "block", "Ann", "-t", "alpha")["disabled"] is True
    assert alpha.json("user", "unblock", "ann", "-t", "alpha")["disabled"] is False
    changed = alpha.run("user", "password", "ann", "-t", "alpha", "--chap", "--json", text="battery staple\n" * 2)
    assert changed.exit_code == 0, changed.output
    assert alpha.json("user", "list", "-t", "alpha")[0]["chap"] is True
    with session_scope(PlatformScope(), engine=app_engine) as session:
        actions = session.scalars(select(AuditEntry.action).order_by(AuditEntry.id.desc()).limit(3)).all()
    assert actions == ["user.change-password", "user.enable", "user.disable"]


def test_site_is_deleted_after_another_becomes_default(alpha: Admit) -> None:
    refused = alpha.run("site", "remove", "main", "-t", "alpha")
    assert (refused.exit_code, "./admit site make-default" in refused.stderr) == (1, True)
    alpha.json("site", "add", "berlin", "-t", "alpha")
    assert alpha.json("site", "make-default", "berlin", "-t", "alpha")["slug"] == "berlin"
    assert alpha.json("site", "remove", "main", "-t", "alpha") == {"removed": "main"}
    alpha.json("nas", "add", "core-1", "-t", "alpha", "--identifier", "core-1")
    assert alpha.json("nas", "list", "-t", "alpha")[0]["site"] == "berlin"
    assert [site["slug"] for site in alpha.json("site", "list", "-t", "alpha")] == ["berlin"]


def test_sites_list_policy_and_default_flag(alpha: Admit, owner_engine: Engine) -> None:
    with Session(owner_engine) as session, session.begin():
        tenant_id = session.scalars(select(Tenant.id)).one()
        session.add(Policy(tenant_id=tenant_id, slug="office", name="Office"))
    alpha.json("site", "add", "berlin", "-t", "alpha")
    assigned = alpha.run("policy", "assign", "-t", "alpha", "-s", "office", "--site", "berlin")
    assert assigned.exit_code == 0
    assert "site berlin denies all requests. Publish it: ./admit policy publish -t alpha -s office" in assigned.stderr
    rows = alpha.json("site", "list", "-t", "alpha")
    assert [(row["slug"], row["policy"], row["default"]) for row in rows] == [
        ("berlin", "office", False),
        ("main", None, True),
    ]


def test_created_nas_names_its_site(alpha: Admit) -> None:
    added = alpha.json("nas", "add", "core-1", "-t", "alpha", "--identifier", "core-1")
    assert (added["site"], "site_id" in added) == ("main", False)
    assert [added] == alpha.json("nas", "list", "-t", "alpha")


def test_nas_needs_a_site_without_a_default(alpha: Admit, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(update(Tenant).values(default_site_id=None))
    result = alpha.run("nas", "add", "core-1", "-t", "alpha", "--identifier", "core-1")
    assert result.stderr == "Error: site: The tenant has no default site. Choose one: ./admit site make-default SITE\n"
    alpha.json("nas", "add", "core-1", "-t", "alpha", "--identifier", "core-1", "--site", "main")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("endpoint", "block", "001122334455", "-t", "alpha"),
            "mac: Endpoint 00:11:22:33:44:55 does not exist. List endpoints: ./admit endpoint list",
        ),
        (
            ("user", "remove", "nobody", "-t", "alpha"),
            "name: User 'nobody' does not exist. List users: ./admit user list",
        ),
        (
            ("user-group", "remove", "none", "-t", "alpha"),
            "group: Group 'none' does not exist. List groups: ./admit user-group list",
        ),
        (
            ("site", "remove", "none", "-t", "alpha"),
            "site: Site 'none' does not exist. List sites: ./admit site list",
        ),
        (("nas", "remove", "none", "-t", "alpha"), "nas: NAS 'none' does not exist. List NASes: ./admit nas list"),
        (
            ("cert", "revoke", "0a", "-t", "alpha"),
            "serial: Certificate 0a does not exist. List certificates: ./admit cert list",
        ),
        (
            ("ca", "show", "none", "-t", "alpha"),
            "authority: Unknown certificate authority 'none'. List authorities: ./admit ca list",
        ),
        (
            ("policy", "show", "-s", "none", "-t", "alpha"),
            "policy: Unknown policy 'none'. List policies: ./admit policy list",
        ),
        (("tenant", "show", "none"), "tenant: Tenant 'none' does not exist. List tenants: ./admit tenant list"),
        (("tenant", "create", "new", "--msp", "none"), "msp: Unknown MSP 'none'. List MSPs: ./admit msp list"),
    ],
)
def test_unknown_name_error_names_the_list_command(alpha: Admit, arguments: tuple[str, ...], error: str) -> None:
    result = alpha.run(*arguments)
    assert (result.exit_code, result.stderr) == (2, f"Error: {error}\n")
    listing = error.rpartition("./admit ")[2].split()
    tenant = arguments[arguments.index("-t") :] if "-t" in arguments else ()
    assert alpha.run(*listing, *tenant).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("endpoint", "add", "001122334455", "-t", "alpha", "--valid-until", "2001-02-03"),
            "valid_until: 2001-02-03 00:00:00 UTC is in the past. Use a future time.",
        ),
        (
            ("user", "add", "ann", "-t", "alpha", "--password", "correct horse", "--valid-until", "2001-02-03"),
            "valid_until: 2001-02-03 00:00:00 UTC is in the past.",
        ),
        (("endpoint", "add", "00:11", "-t", "alpha"), "mac: Invalid MAC address '00:11'."),
        (("endpoint", "add", "001122334455", "-t", "alpha", "--group", "x"), "groups: Unknown groups: 'x'."),
        (("site", "add", "Main", "-t", "alpha"), "slug: Invalid slug 'Main'."),
        (("nas", "add", "core-1", "-t", "alpha"), "identifier: A NAS needs an identifier"),
        (("site", "list", "-t", "nobody"), "tenant: Tenant 'nobody' does not exist."),
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


def test_audit_log_shows_readable_values(alpha: Admit) -> None:
    assert alpha.run("tenant", "set", "alpha", "--methods", "mab,eap-tls").exit_code == 0
    assert alpha.run("nas", "add", "core", "--tenant", "alpha", "--identifier", "core").exit_code == 0
    listed = alpha.run("audit", "list", "--tenant", "alpha").stdout
    assert "behind_nat: - -> no" in listed
    assert "-> mab, eap-tls" in listed
