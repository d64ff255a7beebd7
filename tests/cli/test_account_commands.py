"""`./admit person`, `./admit member` and `./admit token`."""

import json

from nac.accounts.api_tokens import TokenText
from nac.accounts.sign_in.secret_texts import LinkText
from tests.cli.conftest import Admit

OWNERS = {(): "platform-operator", ("--msp", "acme"): "msp-admin", ("-t", "alpha"): "auditor"}


def test_account_gets_links_roles_and_states(alpha: Admit) -> None:
    made = alpha.json("person", "add", "Ann@Example.com", "--name", "Ann")
    assert (made["email"], made["has_password"]) == ("ann@example.com", False)
    assert made["url"].endswith(f"/new-password/{made['token']}")
    again = alpha.json("person", "reset-password", "ann@example.com")
    assert LinkText.parse(again["token"]) != LinkText.parse(made["token"])
    for of, role in OWNERS.items():
        member = alpha.json("member", "add", "ann@example.com", *of, "--role", role)
        assert [each["role"] for each in alpha.json("member", "list", *of)] == [role]
        # Nobody has signed in with it, so this is no last manager. tests/accounts covers those.
        removed = alpha.run("member", "remove", member["id"], *of)
        assert removed.exit_code == 0, removed.output
    assert alpha.json("person", "disable", "ann@example.com")["status"] == "disabled"
    assert alpha.json("person", "enable", made["id"])["status"] == "active"
    for what, removed in (("sign-out", "sessions"), ("reset-factors", "factors")):
        assert alpha.json("person", what, "ann@example.com") == {"removed": removed}
    assert [each["email"] for each in alpha.json("person", "list")] == ["ann@example.com"]
    unknown = alpha.run("person", "disable", "nobody@example.com", "--json")
    assert (unknown.exit_code, json.loads(unknown.stdout)["error"]) == (2, "unknown-item")


def test_token_is_created_listed_and_revoked(alpha: Admit) -> None:
    for of in OWNERS:
        made = alpha.json("token", "create", "monitoring", *of, "--role", "auditor", "--permission", "endpoint.unblock")
        assert TokenText.parse(made["token"])
        assert {"session.read", "endpoint.unblock"} < set(made["permissions"])
        [listed] = alpha.json("token", "list", *of)
        assert (listed["id"], listed["permissions"], "token" in listed) == (made["id"], made["permissions"], False)
        assert alpha.json("token", "revoke", made["id"], *of) == {"removed": made["id"]}
        assert alpha.json("token", "list", *of)[0]["revoked_at"]
        assert alpha.run("token", "revoke", made["id"], "-t", "alpha").exit_code == (0 if of == ("-t", "alpha") else 2)
    for wrong in (
        ("-t", "alpha", "--role", "msp-admin"),
        ("-t", "alpha", "--permission", "tenant.create"),
        ("-t", "alpha"),
        ("-t", "alpha", "--msp", "acme", "--role", "auditor"),
    ):
        result = alpha.run("token", "create", "x", *wrong, "--json")
        assert (result.exit_code, json.loads(result.stdout)["place"] != "") == (2, True), result.output
