"""Trying policies: checks, their own tests, single requests, and the requests of days past. Nothing is changed."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.v1.inputs import Input, Slug, body_references
from api.v1.jobs import Job, accepted
from api.v1.policies import EXAMPLE, Reads, VersionNumber
from api.v1.policy_shapes import PolicyCheck, PolicyMistake, PolicyReplay, PolicySimulation, PolicyTestResult
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.decisions import service as decisions
from nac.engine import read_moment
from nac.engine.attributes import CATALOGUE, open_attributes
from nac.engine.operators import operators_of
from nac.errors import InvalidInput
from nac.ids import TenantId
from nac.jobs import service as jobs
from nac.nases import service as nases
from nac.policies import replay_jobs
from nac.policies import service as policies
from nac.policies.json_rows import mistake_rows, replay_row
from nac.policies.nas_support import list_vendor_limits, list_vendor_names
from nac.policies.policy_tests import test_row
from nac.policies.replay_jobs import ReplayOptions
from nac.policies.replays import MAX_DAYS
from nac.policies.schema import policy_schema
from nac.policies.simulation import recorded_row, simulate, simulation_row

router = APIRouter(prefix="/tenants/{tenant}", tags=["policy trials"])

# What was decided of real devices is in the answer.
ReadsLog = Annotated[Access, Depends(ReadsTenant(Permission.LOG_READ))]
# May begin a job.
Replays = Annotated[Access, Depends(ChangesTenant(Permission.LOG_READ, Effect.RECORDS))]
Document = Annotated[dict[str, Any], Field(examples=[EXAMPLE])]


class PolicyCheckInput(Input):
    document: Document = Field(description="The policy document, as docs/reference/policy.schema.json describes it.")


class PolicyTestInput(Input):
    """A document, whatever is stored, or a version of a policy; the newest where none is said."""

    document: Document | None = Field(
        None, description="The policy document, as docs/reference/policy.schema.json describes it."
    )
    policy: Slug | None = Field(None, examples=["office"], description="Slug; null: the tenant's only one.")
    version: VersionNumber | None = Field(None, description="Number of the version; null: the newest.")

    def find(self, session: Session, tenant_id: TenantId) -> object:
        if self.document is not None:
            return self.document
        policy = policies.find_policy(session, tenant_id=tenant_id, slug=self.policy or "")
        return policies.require_newest_version(
            session, tenant_id=tenant_id, slug=policy.slug, number=self.version
        ).document


class PolicySimulationInput(Input):
    request: dict[str, Any] | None = Field(
        None,
        examples=[{"method": "mab", "mac": "00:00:5e:00:53:01", "nas.identifier": "switch-1"}],
        description="Attribute to value or values, named as in conditions; those of the packet also as RADIUS does.",
    )
    decision: str | None = Field(
        None, max_length=100, description="Id of a decision of the log: its request, in place of `request`."
    )
    document: Document | None = Field(
        None, description="A document; null: what is in force of the policy, or at the site."
    )
    policy: Slug | None = Field(
        None, description="Slug of the policy; null: the tenant's only one, or that of the site."
    )
    site: Slug | None = Field(None, description="Slug of the site; null: that of the NAS.")
    at: str | None = Field(
        None,
        max_length=40,
        examples=["2026-01-05T09:00:00Z"],
        description="The moment (RFC 3339) that it is decided as of; null: now, or when it was decided.",
    )
    as_given: bool = Field(False, description="Adds nothing that the request does not say.")


class PolicyReplayInput(PolicyTestInput):
    days: int = Field(ge=1, le=MAX_DAYS, examples=[7], description="How many of the last days are replayed.")
    site: Slug | None = Field(None, description="At this site alone (slug); null: at all sites that use the policy.")
    against: Literal["recorded", "published"] = Field(
        "recorded",
        description="What is compared with: what was answered then (recorded), or what the policy in force "
        "says now (published).",
    )

    def asked(self) -> ReplayOptions:
        given = self.model_dump(exclude={"policy", "site"})
        return ReplayOptions(**given, policy=self.policy or "", site=self.site or "")


class PolicyAttribute(BaseModel):
    attribute: str = Field(description="Name of the attribute.")
    kind: str = Field(description="Of which kind it is.")
    many: bool = Field(description="Whether a request may hold several values of it.")
    choices: list[str] = Field(description="Values that it may have, where those are few; else empty.")
    operators: list[str] = Field(description="Operators that conditions may use with it.")
    meaning: str = Field(description="What it means.")


class PolicyAttributes(BaseModel):
    items: list[PolicyAttribute] = Field(description="The rows.")


@router.get("/policy-attributes", operation_id="listPolicyAttributes")
def list_attributes(access: Reads) -> PolicyAttributes:
    """What conditions may read."""
    return PolicyAttributes(
        items=[
            PolicyAttribute(
                attribute=each.name,
                kind=each.kind,
                many=each.many,
                choices=list(each.choices),
                operators=list(operators_of(each)),
                meaning=each.meaning,
            )
            for each in (*CATALOGUE.values(), *open_attributes())
        ]
    )


@router.get("/policy-schema", operation_id="getPolicySchema")
def get_schema(access: Reads) -> dict[str, Any]:
    """The JSON Schema of policy documents, for editors and for checks before anything is sent here."""
    return policy_schema()


@router.post("/policy-checks", operation_id="checkPolicy")
def check_policy(access: Reads, body: PolicyCheckInput) -> PolicyCheck:
    """Whether the document could become a policy here; every mistake with its place (422) where it could not."""
    with access.read() as session:
        compiled = policies.check_document(
            session, tenant_id=access.tenant_id, document=body.document, refuse_absent=True
        )
        vendors = list_vendor_names(nases.list_nases(session, tenant_id=access.tenant_id))
    # Who has registered none yet may mean any.
    noted = list_vendor_limits(compiled, vendors or None)
    return PolicyCheck(
        rules=len(compiled.rules),
        tests=len(compiled.tests),
        fallback=cast(Any, compiled.fallback.verdict),
        notes=[PolicyMistake.model_validate(row) for row in mistake_rows(noted)],
    )


@router.post("/policy-tests", operation_id="testPolicy")
def test_policy(access: Reads, body: PolicyTestInput) -> PolicyTestResult:
    """Run the tests that a policy carries."""
    with access.read() as session, body_references(slug="policy"):
        document = body.find(session, access.tenant_id)
        results = policies.run_document_tests(session, tenant_id=access.tenant_id, document=document)
    rows = [test_row(result) for result in results]
    return PolicyTestResult.model_validate({"passed": all(result.passed for result in results), "tests": rows})


@router.post("/policy-simulations", operation_id="simulatePolicy")
def simulate_request(access: ReadsLog, body: PolicySimulationInput) -> PolicySimulation:
    """What a policy answers to one request, and why; nothing is stored and nobody is let in.

    What follows from the packet, and what is stored about the NAS, the endpoint of `mac` and the user of `user.name`,
    is added where the request does not say it.
    """
    if (body.request is None) == (body.decision is None):
        raise InvalidInput("Give either a request or a decision.", place="request")
    request, site, at, fill = body.request, body.site or "", _moment(body.at), not body.as_given
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
    responses={202: {"model": Job, "description": "A job: many requests. Its result is such a replay."}},
)
def replay(access: Replays, response: Response, body: PolicyReplayInput) -> PolicyReplay | Job:
    """Which recorded requests a draft would answer otherwise, in groups, with counts and examples.

    Requests that no policy decided, because credentials did not hold, say, are counted and left out. Many are replayed
    by a job, which the answer names (202).
    """
    asked = body.asked()
    with access.read() as session, body_references(slug="policy"):
        count = replay_jobs.count_recorded_requests(session, tenant_id=access.tenant_id, days=body.days)
        if count <= replay_jobs.MAX_INLINE_REQUESTS:
            found = replay_jobs.run_replay(session, asked, tenant_id=access.tenant_id)
            return PolicyReplay.model_validate(replay_row(found))
    with access.change() as change:
        row = jobs.start_job(
            change.session,
            actor=access.actor,
            owner=access.owner,
            kind=replay_jobs.REPLAY_JOB,
            title=f"Replay of {body.days} days",
            input=asdict(asked),
            needs=(Permission.LOG_READ,),
            seal=access.signing.sealer.seal,
        )
        return change.answer(accepted(access, response, row))


def _moment(text: str | None) -> int | None:
    try:
        return None if text is None else read_moment(text)
    except ValueError as exc:
        raise InvalidInput(f"It {exc}.", place="at") from exc
