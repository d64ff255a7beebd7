"""Policy checks, tests, simulations and replays. These operations change nothing."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, cast

from fastapi import Depends, Response
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.routes import NounRouter
from api.v1.inputs import Input, Slug, body_example, body_examples, body_references
from api.v1.jobs import Job, respond_accepted
from api.v1.policies import POLICY_EXAMPLE, Reads, VersionNumber
from api.v1.policy_evaluation_models import PolicyCheck, PolicyMistake, PolicyReplay, PolicySimulation, PolicyTestResult
from nac.core.jobs import service as jobs
from nac.engine import parse_moment
from nac.engine.attributes import ATTRIBUTE_CATALOGUE, list_open_attributes
from nac.engine.operators import list_operators
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission
from nac.policies import replay_jobs
from nac.policies import service as policies
from nac.policies.json_rows import mistake_rows, replay_row
from nac.policies.nas_support import list_vendor_limits, list_vendor_names
from nac.policies.policy_test_runner import test_row
from nac.policies.replay_jobs import ReplayOptions
from nac.policies.replays import MAX_DAYS
from nac.policies.schema import policy_schema
from nac.policies.simulation import recorded_row, simulate, simulation_row
from nac.sessions.decisions import service as decisions
from nac.tenancy.nases import service as nases

router = NounRouter(
    prefix="/tenants/{tenant}", tag="policy trials", description="Checks, tests, simulations and replays of policies."
)

# The response contains decisions about real devices.
ReadsLog = Annotated[Access, Depends(ReadsTenant(Permission.LOG_READ))]
# Can start a job.
Replays = Annotated[Access, Depends(ChangesTenant(Permission.LOG_READ, Effect.RECORDS))]
Document = Annotated[dict[str, Any], Field(examples=[POLICY_EXAMPLE])]


class PolicyCheckInput(Input):
    document: Document = Field(description="Policy document to check (docs/reference/policy.schema.json).")


class PolicyTestInput(Input):
    """A policy document, or a version of a stored policy. The default is the newest version."""

    model_config = body_examples(("version", "A version of a policy", {"policy": "office", "version": 2}))

    document: Document | None = Field(
        None, description="Policy document to test (docs/reference/policy.schema.json); null for a stored version."
    )
    policy: Slug | None = Field(
        None, examples=["office"], description="Slug of the policy; null for the tenant's only policy."
    )
    version: VersionNumber | None = Field(
        None, description="Number of the policy version; null for the newest version."
    )

    def find(self, session: Session, tenant_id: TenantId) -> object:
        if self.document is not None:
            return self.document
        policy = policies.find_policy(session, tenant_id=tenant_id, slug=self.policy or "")
        return policies.require_newest_version(
            session, tenant_id=tenant_id, slug=policy.slug, number=self.version
        ).document


class PolicySimulationInput(Input):
    model_config = body_examples(
        (
            "request",
            "A new request",
            {
                "policy": "office",
                "site": "main",
                "request": {"method": "mab", "mac": "00:00:5e:00:53:01", "nas.identifier": "sw-north-1"},
                "at": "2026-01-05T09:00:00Z",
            },
        ),
        ("decision", "A logged decision", {"decision": "1767225600000000-4711"}),
    )

    request: dict[str, Any] | None = Field(
        None,
        examples=[{"method": "mab", "mac": "00:00:5e:00:53:01", "nas.identifier": "switch-1"}],
        description=(
            "Values of the request by attribute. Attributes have the same names as in conditions; attributes of "
            "the packet can also have RADIUS names."
        ),
    )
    decision: str | None = Field(
        None,
        max_length=100,
        description="Id of a logged decision. Admit then simulates the request of this decision instead of `request`.",
    )
    document: Document | None = Field(
        None, description="Policy document to simulate; null for the published document of the policy or site."
    )
    policy: Slug | None = Field(
        None, description="Slug of the policy; null for the tenant's only policy, or the policy of the site."
    )
    site: Slug | None = Field(None, description="Slug of the site for the simulation; null for the site of the NAS.")
    at: str | None = Field(
        None,
        max_length=40,
        examples=["2026-01-05T09:00:00Z"],
        description=(
            "Time of the simulated decision (RFC 3339); null for the current time, or for the time of the logged "
            "decision."
        ),
    )
    policy_only: bool = Field(
        False, description="Whether to use only the attributes in `request`, without attributes that Admit adds."
    )


class PolicyReplayInput(PolicyTestInput):
    model_config = body_example({"policy": "office", "site": "main", "days": 7, "against": "recorded"})

    days: int = Field(
        ge=1, le=MAX_DAYS, examples=[7], description="Number of past days from which Admit replays requests."
    )
    site: Slug | None = Field(
        None, description="Slug of the site from which Admit replays requests; null for all sites that use the policy."
    )
    against: Literal["recorded", "published"] = Field(
        "recorded",
        description=(
            "Results with which Admit compares the draft: recorded results (recorded) or results of the published "
            "policy (published)."
        ),
    )

    def asked(self) -> ReplayOptions:
        fields = self.model_dump(exclude={"policy", "site"})
        return ReplayOptions(**fields, policy=self.policy or "", site=self.site or "")


class PolicyAttribute(BaseModel):
    attribute: str = Field(description="Name of the attribute in conditions.")
    kind: str = Field(description="Kind of the attribute's values.")
    many: bool = Field(description="Whether the attribute can have several values in a request.")
    choices: list[str] = Field(
        description="Possible values of the attribute; empty if the attribute has too many values to list."
    )
    operators: list[str] = Field(description="Operators that conditions can use with the attribute.")
    meaning: str = Field(description="Meaning of the attribute.")


class PolicyAttributes(BaseModel):
    items: list[PolicyAttribute] = Field(description="Attributes for conditions.")


@router.get("/policy-attributes", operation_id="listPolicyAttributes")
def list_attributes(access: Reads) -> PolicyAttributes:
    """List the attributes that conditions of policies can use."""
    return PolicyAttributes(
        items=[
            PolicyAttribute(
                attribute=each.name,
                kind=each.kind,
                many=each.many,
                choices=list(each.choices),
                operators=list(list_operators(each)),
                meaning=each.meaning,
            )
            for each in (*ATTRIBUTE_CATALOGUE.values(), *list_open_attributes())
        ]
    )


@router.get("/policy-schema", operation_id="getPolicySchema")
def get_schema(access: Reads) -> dict[str, Any]:
    """Get the JSON Schema of policy documents.

    Use the schema in an editor, or to check documents before you send them.
    """
    return policy_schema()


@router.post("/policy-checks", operation_id="checkPolicy")
def check_policy(access: Reads, body: PolicyCheckInput) -> PolicyCheck:
    """Check a policy document.

    An invalid document fails with 422, and the response lists all errors with their paths in the document.
    """
    with access.read() as session:
        compiled = policies.check_document(
            session, tenant_id=access.tenant_id, document=body.document, refuse_absent=True
        )
        vendors = list_vendor_names(nases.list_nases(session, tenant_id=access.tenant_id))
    # Without registered NASes, all vendors are possible.
    noted = list_vendor_limits(compiled, vendors or None)
    return PolicyCheck(
        rules=len(compiled.rules),
        tests=len(compiled.tests),
        fallback=cast(Any, compiled.fallback.verdict),
        notes=[PolicyMistake.model_validate(row) for row in mistake_rows(noted)],
    )


@router.post("/policy-tests", operation_id="testPolicy")
def test_policy(access: Reads, body: PolicyTestInput) -> PolicyTestResult:
    """Run the tests of a policy."""
    with access.read() as session, body_references(slug="policy"):
        document = body.find(session, access.tenant_id)
        results = policies.run_document_tests(session, tenant_id=access.tenant_id, document=document)
    rows = [test_row(result) for result in results]
    return PolicyTestResult.model_validate({"passed": all(result.passed for result in results), "tests": rows})


@router.post("/policy-simulations", operation_id="simulatePolicy")
def simulate_request(access: ReadsLog, body: PolicySimulationInput) -> PolicySimulation:
    """Simulate the decision of a policy about one request, and explain the decision.

    Nothing is stored and no device is admitted.

    Admit adds attributes that follow from the attributes of the packet. Admit also adds stored data of the NAS, the
    endpoint (`mac`) and the user (`user.name`). Values in `request` take precedence over values that Admit adds.
    """
    if (body.request is None) == (body.decision is None):
        raise InvalidInput("Exactly one of `request` and `decision` is required.", place="request")
    request, site, at, fill = body.request, body.site or "", _parse_moment(body.at), not body.policy_only
    recorded = None
    with access.read() as session, body_references(slug="policy"):
        if body.decision is not None:
            recorded = decisions.require_decision(session, tenant_id=access.tenant_id, reference=body.decision)
            request, site, fill = recorded.log.request, site or recorded.site, False
            at = int(recorded.log.at.timestamp()) if at is None else at
        simulation = simulate(
            session,
            tenant_id=access.tenant_id,
            request=request,
            document=body.document,
            slug=body.policy or "",
            site=site,
            at=at,
            fill=fill,
        )
    return PolicySimulation.model_validate(
        {**simulation_row(simulation), "recorded": recorded and recorded_row(recorded)}
    )


@router.post(
    "/policy-replays",
    operation_id="replayPolicy",
    response_model=PolicyReplay | Job,
    responses={
        202: {
            "model": Job,
            "description": ("Job that replays a large number of requests. The result of the job is a replay."),
        }
    },
)
def replay(access: Replays, response: Response, body: PolicyReplayInput) -> PolicyReplay | Job:
    """Replay recorded requests with the draft of a policy, and list the different results in groups.

    Requests without a policy decision, such as wrong passwords, are counted but not replayed. A replay of many requests
    becomes a job (202).
    """
    replay_request = body.asked()
    with access.read() as session, body_references(slug="policy"):
        count = replay_jobs.count_recorded_requests(session, tenant_id=access.tenant_id, days=body.days)
        if count <= replay_jobs.MAX_INLINE_REQUESTS:
            result = replay_jobs.run_replay(session, replay_request, tenant_id=access.tenant_id)
            return PolicyReplay.model_validate(replay_row(result))
    with access.change() as change:
        row = jobs.start_job(
            change.session,
            actor=access.actor,
            owner=access.owner,
            kind=replay_jobs.REPLAY_JOB,
            title=f"Replay of {body.days} days",
            input=asdict(replay_request),
            needs=(Permission.LOG_READ,),
            seal=access.signing.sealer.seal,
        )
        return change.answer(respond_accepted(access, response, row))


def _parse_moment(text: str | None) -> int | None:
    try:
        return None if text is None else parse_moment(text)
    except ValueError as exc:
        raise InvalidInput(f"`at` {exc}.", place="at") from exc
