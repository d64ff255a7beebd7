"""`./admit job`: output for users and scripts, and exit statuses."""

import json

import pytest

from nac.core.access.owners import Owner
from nac.core.jobs import service
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.tenancy.tenants import service as tenants
from tests.factories.tenancy import ACTOR


@pytest.mark.parametrize("of", [("-t", "alpha"), ()])
def test_job_is_listed_shown_and_cancelled(alpha, app_engine, of):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenant_id = TenantId(tenants.require_by_slug(session, slug="alpha").id)
    owner = Owner(tenant_id=tenant_id) if of else Owner()
    scope = TenantScope(tenant_id) if of else PlatformScope()
    with session_scope(scope, engine=app_engine) as session:
        given = {"kind": "test.wait", "title": "Waits", "input": {}, "needs": (), "total": 3}
        job_id = str(service.start_job(session, actor=ACTOR, owner=owner, seal=lambda plain, _: plain, **given).id)
    [listed] = alpha.json("job", "list", *of)
    assert (listed["id"], listed["state"], listed["title"]) == (job_id, "queued", "Waits")
    assert alpha.json("job", "show", job_id, *of).items() >= listed.items()
    assert alpha.json("job", "cancel", job_id, *of)["state"] == "cancelled"
    assert alpha.json("job", "list", "--state", "queued", *of) == []
    for verb in ("cancel", "retry"):
        refused = alpha.run("job", verb, job_id, *of, "--json")
        assert (refused.exit_code, json.loads(refused.stdout)["error"]) == (1, "conflict")
    elsewhere = alpha.run("job", "show", job_id, *(() if of else ("-t", "alpha")), "--json")
    assert (elsewhere.exit_code, json.loads(elsewhere.stdout)["error"]) == (2, "job-not-found")
