"""A policy with errors of every kind is not saved, and one response lists each with its position."""

import json

import pytest

from loadtest.tenants import policy_document
from nac.kit.db import TenantScope, session_scope
from nac.policies import service as policies

pytestmark = pytest.mark.faults


def bad_document():
    """The tenant's policy with an unknown attribute, an invalid value, an unreachable rule and an unknown group."""
    document = policy_document()
    first, second, third, fourth = document["rules"][:4]
    first["when"]["all"].append({"attribute": "colour", "operator": "equals", "value": "red"})
    second["then"]["reply"] = [{"attribute": "Session-Timeout", "value": "soon"}]
    third["when"]["all"][1]["value"] = "plotters"
    document["rules"].insert(4, {**fourth, "id": "again", "name": "What the rule before it takes already"})
    return document


PLACES = {
    "rules[0].when.all[2].attribute",
    "rules[1].then.reply[0]",
    "rules[2].when.all[1].value",
    "rules[4]",
}


def versions(instance, tenant):
    return instance.query(
        "SELECT p.slug, v.number, v.status FROM policies p LEFT JOIN policy_versions v ON v.policy_id = p.id "
        "WHERE p.tenant_id = %s ORDER BY 1, 2",
        tenant.tenant_id,
    )


def test_service_rejects_the_policy_with_every_position(instance, tenants):
    """The service of API and portal reports all four problems in one error, and stores no version."""
    before = versions(instance, tenants[0])
    with (
        pytest.raises(policies.InvalidPolicy) as caught,
        session_scope(TenantScope(tenants[0].tenant_id), engine=instance.installation.engine) as session,
    ):
        policies.save_draft(
            session, actor="test", tenant_id=tenants[0].tenant_id, slug=before[0][0], document=bad_document()
        )
    assert {mistake.place for mistake in caught.value.mistakes} == PLACES
    assert versions(instance, tenants[0]) == before


@pytest.mark.parametrize("slug", ["", pytest.param("brand-new", marks=pytest.mark.long)])
def test_command_rejects_the_policy_with_every_position(instance, tenants, slug):
    """`./admit policy save` of an existing and a new policy exits with status 2 and prints one line per position.

    Nothing is stored, and the decisions about devices do not change.
    """
    before = versions(instance, tenants[0])
    done = instance.admit(
        *("policy", "save", "-", "--tenant", tenants[0].tenant.slug, "--slug", slug or before[0][0]),
        text=json.dumps(bad_document()),
    )
    assert done.returncode == 2
    assert "4 mistakes" in done.stderr
    assert {line.split(": ")[0].strip() for line in done.stderr.splitlines()[1:]} == PLACES
    assert versions(instance, tenants[0]) == before
