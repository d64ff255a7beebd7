"""`./admit secret-rotation`: output for users and scripts, and exit statuses."""

import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.models import SecretRotation, SecretSighting

OF = ("-t", "alpha")
NEW = "the-secret-that-is-to-come"


@pytest.fixture
def saw(alpha, owner_engine: Engine):
    def see(key: str, **times: object) -> None:
        with Session(owner_engine) as session, session.begin():
            rotation = session.scalars(select(SecretRotation).where(SecretRotation.state == "running")).one()
            named = {"tenant_id": rotation.tenant_id, "rotation_id": rotation.id, "nas_key": key}
            session.add(SecretSighting(**named, source="192.0.2.1", **times))

    return see


def test_rotation_is_started_shown_and_finished(alpha, saw):
    begun = alpha.json("secret-rotation", "begin", *OF, "--secret", NEW, "--hours", "24", "--at-end", "wait")
    assert (begun["of"], begun["state"], begun["at_end"], begun["nases"]) == ("tenant", "preparing", "wait", "")
    assert begun["plan"][0].startswith("Wait until the state is open")
    assert "POST" not in str(begun["plan"])
    for command in ("reveal", "nases", "finish"):
        assert f"./admit secret-rotation {command}" in str(begun["plan"])
    assert begun["ends_at"] == datetime.fromisoformat(begun["ends_at"]).astimezone(UTC).isoformat()
    assert alpha.json("secret-rotation", "show", *OF) == begun
    told = alpha.run("secret-rotation", "show", *OF).output
    assert "preparing" in told
    assert "1. Wait until" in told
    assert NEW not in told + json.dumps(begun)
    assert alpha.json("secret-rotation", "reveal", *OF) == {"secret": NEW}
    saw("sw-1|192.0.2.1", old_at=utc_now())
    saw("sw-2|192.0.2.1", new_at=utc_now(), new_since=utc_now())
    listed = alpha.json("secret-rotation", "nases", *OF)
    assert [(each["nas"], each["state"], each["way"]) for each in listed] == [
        ("sw-1|192.0.2.1", "old", "together"),
        ("sw-2|192.0.2.1", "new", "together"),
    ]
    assert [each["nas"] for each in alpha.json("secret-rotation", "nases", *OF, "--state", "new")] == ["sw-2|192.0.2.1"]
    refused = alpha.run("secret-rotation", "finish", *OF)
    assert refused.exit_code != 0
    assert "stop working: sw-1" in refused.output
    finished = alpha.json("secret-rotation", "finish", *OF, "--leave-behind")
    assert (finished["state"], finished["nases"]) == ("finished", "1 new, 1 old")
    assert alpha.run("secret-rotation", "finish", *OF).exit_code == 2


def test_rotation_of_a_nas_is_cancelled(alpha):
    alpha.json("nas", "add", "north", *OF, "--address", "192.0.2.7", "--secret", "a-secret-of-its-own-1")
    begun = alpha.json("secret-rotation", "begin", *OF, "--nas", "north")
    assert begun["of"] == "north"
    secret = alpha.json("secret-rotation", "reveal", *OF, "--nas", "north")["secret"]
    assert secret not in alpha.run("secret-rotation", "cancel", *OF, "--nas", "north").output
    assert alpha.json("secret-rotation", "show", *OF, "--nas", "north")["state"] == "cancelled"
    assert alpha.run("secret-rotation", "show", *OF).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("begin", "--hours", "0"), "1 and 720 hours"),
        (("begin", "--secret", "short"), "secret"),
        (("begin", "--at-end", "never"), "--at-end"),
        (("begin", "--nas", "none"), "none"),
        (("show",), "no rotation"),
        (("finish",), "no rotation"),
        (("cancel",), "no rotation"),
        (("reveal",), "no rotation"),
    ],
)
def test_invalid_rotation_is_reported(alpha, arguments, told):
    result = alpha.run("secret-rotation", *arguments, *OF)
    assert (result.exit_code, told in result.output) == (2, True), result.output
