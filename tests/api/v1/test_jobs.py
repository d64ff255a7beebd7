"""Jobs: listed, cancelled, retried."""

from typing import get_args
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Engine

from api.v1 import jobs as routes
from nac.core.access.grants import Owner
from nac.core.jobs import service
from nac.core.jobs.runner import SingleTransactionHandler
from nac.core.jobs.service import JobKind
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from tests.api.v1.conftest import As
from tests.api.v1.responses import refusal, walk
from tests.factories.tenancy import ACTOR
from tests.job_runs import run_next
from worker.handlers import JOB_HANDLERS

JOBS = "/v1/tenants/alpha/jobs"
NEEDS = (Permission.ENDPOINT_MANAGE, Permission.USER_MANAGE)


@pytest.fixture
def job_ids(app_engine: Engine, tenant_id: TenantId) -> list[str]:
    """Ids of the jobs, oldest first."""
    owner = Owner(tenant_id=tenant_id)
    found = []
    for kind in ("test.0", "bulk.run", "test.2"):
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            given = {"kind": kind, "title": "T", "input": {"secret": "hush"}, "total": 5, "needs": NEEDS}
            row = service.start_job(session, actor=ACTOR, owner=owner, seal=lambda plain, _: plain, **given)
            found.append(str(row.id))
    return found


def test_pages_are_newest_first_and_show_no_input(api: httpx.Client, job_ids: list[str]) -> None:
    found = walk(api, JOBS, limit=1)
    assert [each["id"] for each in found] == job_ids[::-1]
    assert walk(api, JOBS, limit=1, sort="created_at") == found[::-1]
    assert found[0].keys() == routes.Job.model_fields.keys()
    assert "hush" not in str(found)
    assert [each["id"] for each in api.get(JOBS, params={"kind": "bulk.run"}).json()["items"]] == [job_ids[1]]
    assert api.get(JOBS, params={"state": ["done", "failed"]}).json()["items"] == []
    assert api.get(JOBS, params={"kind": "bulk"}).status_code == 422
    assert set(get_args(JobKind)) == JOB_HANDLERS.keys()


def test_job_is_cancelled_once_and_retried_after_failure(
    api: httpx.Client, app_engine: Engine, worker_engine: Engine, job_ids: list[str]
) -> None:
    first, second, _ = job_ids
    assert api.post(f"{JOBS}/{first}/cancel").json()["state"] == "cancelled"
    assert refusal(api.post(f"{JOBS}/{first}/cancel")) == (409, "conflict")

    def refuse(*_: object) -> None:
        raise service.JobNotFound("It is gone.", remedy="Look elsewhere.")

    engines = {"app_engine": app_engine, "engine": worker_engine}
    assert run_next({"bulk.run": SingleTransactionHandler(refuse)}, unseal=lambda sealed, _: sealed, **engines)
    failed = api.get(f"{JOBS}/{second}").json()
    assert failed["state"] == "failed"
    assert failed["problem"] == {
        "code": "job-not-found",
        "title": "The job does not exist.",
        "detail": "It is gone.",
        "remedy": "Look elsewhere.",
    }
    assert api.post(f"{JOBS}/{second}/retry").json()["state"] == "queued"


def test_retry_needs_the_permissions_of_the_start(
    api: httpx.Client, app_engine: Engine, tenant_id: TenantId, as_tenant: As, job_ids: list[str]
) -> None:
    first, second, third = job_ids
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        for job, needs in ((first, list(NEEDS)), (second, None), (third, ["endpoint.fly"])):
            row = service.require_job(session, owner=Owner(tenant_id=tenant_id), job_id=UUID(job))
            row.state, row.needs = "failed", needs
    for held, status in ((NEEDS[:1], 403), ((), 403), (NEEDS, 200)):
        answer = api.post(f"{JOBS}/{first}/retry", headers=as_tenant(Permission.JOB_MANAGE, *held))
        assert answer.status_code == status, answer.text
    # A job without recorded permissions, or with an unknown permission. Admit cannot check either.
    assert api.post(f"{JOBS}/{second}/retry").status_code == 409
    gone = api.post(f"{JOBS}/{third}/retry")
    assert (gone.status_code, gone.json()["remedy"]) == (409, "Start a new job.")
