"""`./admit token`: output for users and scripts, and exit statuses."""

import json

from nac.accounts.api_tokens import TokenText


def test_token_is_created_listed_and_revoked(alpha):
    for of in (("-t", "alpha"), ("--msp", "acme"), ()):
        made = alpha.json("token", "make", "monitoring", *of, "--role", "auditor", "--permission", "endpoint.unblock")
        assert TokenText.parse(made["token"])
        assert {"session.read", "endpoint.unblock"} < set(made["permissions"])
        [listed] = alpha.json("token", "list", *of)
        assert (listed["id"], listed["permissions"], "token" in listed) == (made["id"], made["permissions"], False)
        assert alpha.json("token", "revoke", made["id"], *of) == {"removed": made["id"]}
        assert alpha.json("token", "list", *of)[0]["revoked_at"]
        assert alpha.run("token", "revoke", made["id"], "-t", "alpha").exit_code == (0 if of == ("-t", "alpha") else 2)


def test_errors_exit_with_2_and_a_remedy(alpha):
    for arguments in (
        ("-t", "alpha", "--role", "msp-admin"),
        ("-t", "alpha", "--permission", "tenant.create"),
        ("-t", "alpha"),
        ("-t", "alpha", "--msp", "acme", "--role", "auditor"),
    ):
        result = alpha.run("token", "make", "x", *arguments, "--json")
        assert result.exit_code == 2, result.output
        assert json.loads(result.stdout)["place"]
