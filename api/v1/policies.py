"""Policies of a tenant: drafts, versions and publication."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.bodies import BodyTooLarge
from api.change import Change, HasChanged
from api.routes import NounRouter
from api.v1.inputs import Comment, Input, Name, Slug, body_example, body_references
from api.v1.jobs import Job, respond_accepted
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.core.jobs import service as jobs
from nac.engine import PolicyErrors, parse_policy_text
from nac.engine.document import MAX_DOCUMENT_BYTES
from nac.kit.errors import InvalidInput
from nac.kit.permissions import Effect, Permission
from nac.models import Policy as PolicyRow
from nac.models import PolicyVersion as PolicyVersionRow
from nac.policies import service as policies
from nac.policies.hits import count_hits, hit_rows
from nac.policies.json_rows import decode_policy_text, order_keys
from nac.policies.replay_jobs import PUBLISH_JOB, is_publishing_slow
from nac.policies.repository import ORDERS, VERSION_ORDERS

router = NounRouter(
    prefix="/tenants/{tenant}/policies",
    tag="policies",
    description="Policies with rules, as drafts and versions, and hits of the rules.",
)

PolicySlug = Annotated[
    str, Path(max_length=63, pattern=r"^[a-z0-9-]+$", examples=["office"], description="Slug of the policy.")
]
VersionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.POLICY_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.POLICY_MANAGE, Effect.DRAFT))]
Publishes = Annotated[Access, Depends(ChangesTenant(Permission.POLICY_PUBLISH, Effect.RULES))]
POLICY_EXAMPLE: dict[str, Any] = {
    "rules": [
        {
            "id": "printers",
            "name": "Printers by MAC address",
            "when": {"attribute": "endpoint.group", "operator": "equals", "value": "printers"},
            "then": {"verdict": "permit", "vlan": "20"},
        }
    ]
}
_DOCUMENT_REMEDY = "Send the document itself as a JSON object."
_DOCUMENT_BODY = {
    "requestBody": {
        "required": True,
        "description": f"Policy document as JSON, at most {MAX_DOCUMENT_BYTES} bytes. Admit stores the text unchanged.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": POLICY_EXAMPLE}},
    }
}


class Policy(BaseModel):
    id: UUID = Field(description="Permanent id of the policy.")
    slug: str = Field(description="Slug of the policy, which is a DNS label.")
    name: str = Field(description="Name of the policy.")
    published_version: int | None = Field(
        description=(
            "Number of the published policy version; null if no version is published. The policy then denies "
            "everything."
        )
    )
    sites: list[str] = Field(
        examples=[["main"]],
        description="Slugs of the sites that use the policy. To assign the policy to a site, update the site.",
    )


class PolicyVersionSummary(BaseModel):
    version: int = Field(description="Number of the policy version.")
    status: Literal["draft", "published", "superseded"] = Field(
        description=(
            "Status of the policy version. A `draft` is not in force. `superseded` means a former draft or "
            "published version."
        )
    )
    comment: str = Field(description='Comment on the policy version; "" if none.')
    created_at: datetime = Field(description="Time when the policy version was created.")
    published_at: datetime | None = Field(
        description="Time when the policy version was last published; null if never published."
    )


class PolicyVersion(PolicyVersionSummary):
    document: dict[str, Any] = Field(description="Policy document of the version (docs/reference/policy.schema.json).")
    written: str | None = Field(
        description="Original text of the policy document, if the client sent the document as text."
    )
    replayed: dict[str, Any] | None = Field(
        description=(
            "Result of the replay before the publication, and the actor who accepted the result; null without a replay."
        )
    )


class RuleHits(BaseModel):
    rule: str = Field(description='Id of the rule; "" for the fallback of the policy.')
    name: str = Field(description="Name of the rule.")
    kind: Literal["pinned-deny", "rule", "fallback"] = Field(
        description="Whether the hits belong to a pinned deny, a rule or the fallback."
    )
    hits_1d: int = Field(description="Number of hits of the rule in the last day (UTC).")
    hits_7d: int = Field(description="Number of hits of the rule in the last 7 days (UTC).")
    hits_30d: int = Field(description="Number of hits of the rule in the last 30 days (UTC).")
    last_hit: datetime | None = Field(description="Time of the last hit of the rule.")
    never_hit: bool = Field(description="Whether the rule never had a hit.")
    last_hit_before: datetime | None = Field(
        description="Time of the last hit of the rule in an earlier policy version."
    )


class PolicyHits(BaseModel):
    slug: str = Field(description="Slug of the policy, which is a DNS label.")
    version: int = Field(description="Number of the published policy version.")
    published_at: datetime | None = Field(
        description="Time when the policy version was last published; null if never published."
    )
    rules: list[RuleHits] = Field(description="Rules of the policy version, with their hits.")


class PolicyInput(Input):
    slug: Slug = Field(examples=["office"], description="Slug of the policy, which is a DNS label.")
    name: Name = Field("", description="Name of the policy.")


class PolicyUpdate(Input):
    name: Name = Field(examples=["Office, 2nd floor"], description="Name of the policy.")


class PublicationInput(Input):
    model_config = body_example({"version": 1})

    version: VersionNumber | None = Field(
        None,
        examples=[3],
        description=(
            "Version number of the draft that you reviewed. Publication fails if the draft has another number; "
            "null for any draft."
        ),
    )
    acknowledge: str = Field(
        "",
        max_length=64,
        pattern="^[0-9a-f]*$",
        examples=["9f86d081884c7d65"],
        description='`digest` of the replay whose differences you accept; "" if you accept no differences.',
    )


class PolicyRollback(Input):
    model_config = body_example({"version": 1, "comment": "Restore the guest rules"})

    version: VersionNumber = Field(examples=[2], description="Number of an earlier published policy version.")
    comment: Comment = Field("", description='Comment on the new policy version; "" if none.')


async def require_document_text(request: Request) -> bytes:
    "Return the request body, which is the text of a policy document. Raises BodyTooLarge."
    text = await request.body()
    if not text.strip():
        raise InvalidInput("The request has no body.", place="body", remedy=_DOCUMENT_REMEDY)
    if len(text) > MAX_DOCUMENT_BYTES:
        raise BodyTooLarge(
            f"The document of the policy is larger than {MAX_DOCUMENT_BYTES} bytes.",
            remedy="In conditions, use groups instead of long lists.",
        )
    return text


_DocumentText = Annotated[bytes, Depends(require_document_text)]


@router.get("", operation_id="listPolicies")
def list_policies(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the slug or name of the policies to list.")] = "",
    published: Annotated[
        bool | None, Query(description="Whether the policies to list have a published version.")
    ] = None,
) -> Page[Policy]:
    """List policies, with the sites that use each policy."""
    with access.read() as session:
        rows = policies.list_page(session, tenant_id=access.tenant_id, span=paging.span, text=text, published=published)
        sites = policies.sites_by_policy(session, tenant_id=access.tenant_id, policies=rows)
        return paging.ordered(rows, lambda row: _build_policy(row, sites.get(row.id, ())))


@router.post("", status_code=201, operation_id="createPolicy")
def create_policy(access: Changes, body: PolicyInput) -> Policy:
    """Create a policy without versions.

    Sites with this policy deny everything until you publish a version of the policy.
    """
    with access.change() as change:
        row = policies.create_policy(
            change.session, actor=access.actor, tenant_id=access.tenant_id, slug=body.slug, name=body.name
        )
        change.located(row.slug)
        return change.answer(_build_policy(row, ()))


@router.get("/{policy}", operation_id="getPolicy")
def get_policy(access: Reads, policy: PolicySlug) -> Policy:
    """Get a policy, with the sites that use the policy."""
    with access.read() as session:
        return access.shown(_get_policy(session, access, policy))


@router.patch("/{policy}", operation_id="updatePolicy")
def update_policy(access: Changes, policy: PolicySlug, body: PolicyUpdate) -> Policy:
    """Rename a policy.

    The slug of a policy cannot change.
    """
    with access.change() as change:
        change.require_match(_get_policy(change.session, access, policy, lock=True))
        who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id}
        policies.rename_policy(change.session, **who, slug=policy, name=body.name)
        return change.answer(_get_policy(change.session, access, policy))


@router.delete("/{policy}", status_code=204, operation_id="deletePolicy")
def delete_policy(access: Changes, policy: PolicySlug) -> None:
    """Delete a policy with all versions.

    A policy that a site uses cannot be deleted.
    """
    with access.change() as change:
        change.require_match(_get_policy(change.session, access, policy, lock=True))
        policies.delete_policy(change.session, actor=access.actor, tenant_id=access.tenant_id, slug=policy)
        change.set_empty_response()


@router.get("/{policy}/versions", operation_id="listPolicyVersions")
def list_versions(
    access: Reads, policy: PolicySlug, paging: Annotated[OrderedPaging, Depends(require_paging(VERSION_ORDERS))]
) -> Page[PolicyVersionSummary]:
    """List versions of a policy, newest first by default."""
    with access.read() as session:
        rows = policies.list_versions(session, tenant_id=access.tenant_id, slug=policy, span=paging.span)
        return paging.ordered(rows, _build_version_summary)


@router.get("/{policy}/versions/{version}", operation_id="getPolicyVersion")
def get_version(
    access: Reads,
    policy: PolicySlug,
    version: Annotated[int, Path(ge=1, le=2**31 - 1, description="Number of the policy version.")],
) -> PolicyVersion:
    """Get one version of a policy, with the document."""
    with access.read() as session:
        row = policies.require_version(session, tenant_id=access.tenant_id, slug=policy, number=version)
        return access.shown(build_version(row))


@router.get("/{policy}/draft", operation_id="getPolicyDraft")
def get_draft(access: Reads, policy: PolicySlug) -> PolicyVersion:
    """Get the draft of a policy, which is the version to publish."""
    with access.read() as session:
        row = policies.get_draft(session, tenant_id=access.tenant_id, slug=policy)
        if row is None:
            raise policies.PolicyVersionNotFound("The policy has no draft.", place="policy", remedy="Save a draft.")
        return access.shown(build_version(row))


@router.put("/{policy}/draft", operation_id="updatePolicyDraft", openapi_extra=_DOCUMENT_BODY)
def save_draft(
    access: Changes,
    policy: PolicySlug,
    text: _DocumentText,
    comment: Annotated[Comment, Query(description="Comment on the draft, such as a summary of the change.")] = "",
) -> PolicyVersion:
    """Save a draft of a policy.

    The body is the document. The draft becomes the newest version and takes effect when you publish the draft.

    With `If-Match` and the draft's ETag, saving fails if the draft has changed.
    """
    try:
        document = parse_policy_text(text)
    except PolicyErrors as errors:
        raise policies.InvalidPolicy(errors.mistakes) from errors
    if not isinstance(document, dict):
        raise InvalidInput("The document must be a JSON object.", place="body", remedy=_DOCUMENT_REMEDY)
    with access.change() as change:
        before = policies.get_draft(change.session, tenant_id=access.tenant_id, slug=policy, lock=True)
        if before is not None:
            change.require_match(build_version(before))
        elif change.request.headers.get("if-match") is not None:
            raise HasChanged("The policy has no draft.", remedy="Reload the policy and try again.")
        row = policies.save_draft(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            slug=policy,
            document=document,
            comment=comment,
            written=decode_policy_text(text),
        )
        change.session.refresh(row)
        return change.answer(build_version(row))


@router.post(
    "/{policy}/publish",
    operation_id="publishPolicy",
    response_model=PolicyVersion | Job,
    responses={202: {"model": Job, "description": "Job that replays a large number of requests."}},
)
def publish_policy(
    access: Publishes, response: Response, policy: PolicySlug, body: PublicationInput
) -> PolicyVersion | Job:
    """Publish the draft at every site of the policy.

    Publication fails with 409 `policy-tests-failed` if a test of the policy fails. The member `failed_tests` lists
    these tests.

    If the tenant requires a replay, publication fails with 409 `unacknowledged-differences` if the draft changes
    recorded results. The `digest` of `replay` acknowledges these differences. If the replay takes long, a job publishes
    the draft (202). The job can fail with `unacknowledged-differences` too.

    `If-Match` compares the policy at the time of the request. To publish only the draft that you reviewed, set
    `version`. The `ETag` of the response belongs to the policy. With 202, the `ETag` belongs to the job, so read the
    policy again when the job is done.
    """
    with access.change() as change:
        _require_match(change, access, policy)
        who: dict[str, Any] = {"tenant_id": access.tenant_id, "slug": policy}
        # Publish this draft, because nobody reviewed drafts that are saved while the job waits. Without a draft, no
        # job is needed.
        takes_long = is_publishing_slow(change.session, tenant_id=access.tenant_id)
        draft = policies.get_draft(change.session, **who) if takes_long else None
        if draft is not None:
            row = jobs.start_job(
                change.session,
                actor=access.actor,
                owner=access.owner,
                kind=PUBLISH_JOB,
                title=f"Publish {policy}",
                input={"slug": policy, "number": body.version or draft.number, "acknowledge": body.acknowledge},
                needs=(Permission.POLICY_PUBLISH,),
                seal=access.signing.sealer.seal,
            )
            return change.answer(respond_accepted(access, response, row))
        version = policies.publish_policy(
            change.session,
            **who,
            actor=access.actor,
            number=body.version,
            acknowledge=body.acknowledge,
        )
        return change.answer(build_version(version), state=_get_policy(change.session, access, policy))


@router.post("/{policy}/roll-back", operation_id="rollBackPolicy")
def roll_back(access: Publishes, policy: PolicySlug, body: PolicyRollback) -> PolicyVersion:
    """Publish an earlier version of a policy again, as a new version.

    The tests of the version must pass. No replay is required.
    """
    with access.change() as change:
        _require_match(change, access, policy)
        who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "slug": policy}
        with body_references():
            row = policies.roll_back_policy(change.session, **who, number=body.version, comment=body.comment)
        change.session.refresh(row)
        return change.answer(build_version(row), state=_get_policy(change.session, access, policy))


@router.get("/{policy}/hits", operation_id="getPolicyHits")
def get_hits(access: Reads, policy: PolicySlug) -> PolicyHits:
    """Get the number of hits of each rule in the published version."""
    with access.read() as session:
        counts = count_hits(session, tenant_id=access.tenant_id, slug=policy)
        rows = [RuleHits.model_validate(row) for row in hit_rows(counts)]
        return PolicyHits(slug=counts.slug, version=counts.version, published_at=counts.published_at, rules=rows)


def _require_match(change: Change, access: Access, slug: str) -> None:
    """Compare `If-Match` with the policy.

    Without `If-Match`, the function does not lock the row, because a replay before publication can take a minute.
    """
    change.require_match(_get_policy(change.session, access, slug, lock=change.has_if_match))


def _get_policy(session: Session, access: Access, slug: str, *, lock: bool = False) -> Policy:
    row = policies.require_by_slug(session, tenant_id=access.tenant_id, slug=slug, lock=lock)
    sites = policies.sites_by_policy(session, tenant_id=access.tenant_id, policies=[row])
    return _build_policy(row, sites.get(row.id, ()))


def _build_policy(row: PolicyRow, sites: Sequence[str]) -> Policy:
    return Policy(id=row.id, slug=row.slug, name=row.name, published_version=row.published_version, sites=list(sites))


def _build_version_summary(row: PolicyVersionRow) -> PolicyVersionSummary:
    return PolicyVersionSummary(
        version=row.number,
        status=cast(Any, row.status),
        comment=row.comment,
        created_at=row.created_at,
        published_at=row.published_at,
    )


def build_version(row: PolicyVersionRow) -> PolicyVersion:
    return PolicyVersion(
        **_build_version_summary(row).model_dump(),
        document=cast("dict[str, Any]", order_keys(row.document)),
        written=row.written,
        replayed=row.replayed,
    )
