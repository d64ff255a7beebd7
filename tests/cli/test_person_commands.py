"""`./admit person` and `./admit member`: the first users of an installation."""

from nac.accounts.sign_in.secret_texts import LinkText


def test_first_user_is_created_with_a_link_and_a_role(alpha):
    made = alpha.json("person", "add", "Ann@Example.com", "--name", "Ann")
    assert (made["email"], made["has_password"]) == ("ann@example.com", False)
    assert LinkText.parse(made["token"])
    again = alpha.json("person", "reset-password", "ann@example.com")
    assert LinkText.parse(again["token"]) != LinkText.parse(made["token"])
    for of, role in (((), "platform-operator"), (("--msp", "acme"), "msp-admin"), (("-t", "alpha"), "auditor")):
        member = alpha.json("member", "add", "ann@example.com", *of, "--role", role)
        assert [each["role"] for each in alpha.json("member", "list", *of)] == [role]
        # Nobody has signed in with it, so this is no last manager. tests/accounts covers those.
        removed = alpha.run("member", "remove", member["id"], *of)
        assert removed.exit_code == 0, removed.output
    assert [each["email"] for each in alpha.json("person", "list")] == ["ann@example.com"]


def test_user_is_disabled_signed_out_and_reset(alpha):
    alpha.json("person", "add", "ann@example.com")
    assert alpha.json("person", "disable", "ann@example.com")["status"] == "disabled"
    assert alpha.json("person", "enable", "ann@example.com")["status"] == "active"
    assert alpha.json("person", "sign-out", "ann@example.com") == {"removed": "sessions"}
    assert alpha.json("person", "reset-factors", "ann@example.com") == {"removed": "factors"}
    assert alpha.run("person", "disable", "nobody@example.com").exit_code == 2
