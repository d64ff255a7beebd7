"""Policies of a tenant: drafts, versions, what is in force."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.bodies import BodyTooLarge
from api.change import Change, HasChanged
from api.v1.inputs import Comment, Input, Name, Slug, body_references
from api.v1.jobs import Job, accepted
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.engine import PolicyErrors, read_policy_text
from nac.engine.document import MAX_DOCUMENT_BYTES
from nac.errors import InvalidInput
from nac.jobs import service as jobs
from nac.models import Policy as PolicyRow
from nac.models import PolicyVersion as PolicyVersionRow
from nac.policies import service as policies
from nac.policies.hits import count_hits, hit_rows
from nac.policies.key_order import decode_policy_text, order_keys
from nac.policies.replay_jobs import PUBLISH_JOB, is_publishing_slow
from nac.policies.repository import ORDERS, VERSION_ORDERS

router = APIRouter(prefix="/tenants/{tenant}/policies", tags=["policies"])

PolicySlug = Annotated[str, Path(max_length=63, pattern=r"^[a-z0-9-]+$", examples=["office"])]
VersionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.POLICY_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.POLICY_MANAGE, Effect.DRAFT))]
Publishes = Annotated[Access, Depends(ChangesTenant(Permission.POLICY_PUBLISH, Effect.RULES))]
EXAMPLE: dict[str, Any] = {
    "rules": [
        {
            "id": "printers",
            "name": "Printers by MAC address",
            "when": {"attribute": "endpoint.group", "operator": "equals", "value": "printers"},
            "then": {"verdict": "permit", "vlan": "20"},
        }
    ]
}
_ITSELF = "Send the document itself, as an object of JSON."
_AS_DOCUMENT = {
    "requestBody": {
        "required": True,
        "description": f"The document itself, at most {MAX_DOCUMENT_BYTES} bytes; it is kept as it is written.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": EXAMPLE}},
    }
}


class Policy(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    slug: str = Field(description="Its name in addresses: a DNS label.")
    name: str = Field(description="Name, for people.")
    published_version: int | None = Field(description="Number of the version that decides; null: everything is denied.")
    sites: list[str] = Field(description="Where it decides, by slug. Assigned by a change of the site.")


class PolicyVersionSummary(BaseModel):
    version: int = Field(description="Number of the version.")
    status: Literal["draft", "published", "superseded"] = Field(
        description="draft: it decides nothing yet. superseded: it was a draft or in force before."
    )
    comment: str = Field(description='Why, in words. "": nothing was said.')
    created_at: datetime = Field(description="When it was made.")
    published_at: datetime | None = Field(description="When it was published last; null: never.")


class PolicyVersion(PolicyVersionSummary):
    document: dict[str, Any] = Field(
        description="The policy document, as docs/reference/policy.schema.json describes it."
    )
    written: str | None = Field(description="As it was written, where it came as a text.")
    replayed: dict[str, Any] | None = Field(
        description="What the replay before publishing found, and who acknowledged it; null without one."
    )


class RuleHits(BaseModel):
    rule: str = Field(description='Id of the rule; "" is the fallback.')
    name: str = Field(description="Name, for people.")
    kind: Literal["pinned-deny", "rule", "fallback"] = Field(description="Which part of the document it is.")
    hits_1d: int = Field(description="Decisions by it of the last day (UTC).")
    hits_7d: int = Field(description="Decisions by it of the last 7 days (UTC).")
    hits_30d: int = Field(description="Decisions by it of the last 30 days (UTC).")
    last_hit: datetime | None = Field(description="When it decided last.")
    never_hit: bool = Field(description="Whether it has never decided.")
    last_hit_before: datetime | None = Field(description="When it decided last, by a version that was in force before.")


class PolicyHits(BaseModel):
    slug: str = Field(description="Its name in addresses: a DNS label.")
    version: int = Field(description="Number of the version that decides.")
    published_at: datetime | None = Field(description="When it was published last; null: never.")
    rules: list[RuleHits] = Field(description="The rules.")


class PolicyInput(Input):
    slug: Slug = Field(examples=["office"], description="Its name in addresses: a DNS label.")
    name: Name = Field("", description="Name, for people.")


class PolicyUpdate(Input):
    name: Name = Field(examples=["Office, 2nd floor"], description="Name, for people.")


class PublicationInput(Input):
    version: VersionNumber | None = Field(
        None,
        examples=[3],
        description="Only if this is the draft: what was reviewed is what is published. null: whatever the draft is.",
    )
    acknowledge: str = Field(
        "",
        max_length=64,
        pattern="^[0-9a-f]*$",
        examples=["9f86d081884c7d65"],
        description='`digest` of the differences that a replay told: publish in spite of them. "": none.',
    )


class PolicyRollback(Input):
    version: VersionNumber = Field(examples=[2], description="Number of a version that was in force before.")
    comment: Comment = Field("", description='Why, in words. "": nothing was said.')


async def document_text(request: Request) -> bytes:
    """The body, a policy as it is written. Raises BodyTooLarge."""
    text = await request.body()
    if not text.strip():
        raise InvalidInput("A body is needed.", place="body", remedy=_ITSELF)
    if len(text) > MAX_DOCUMENT_BYTES:
        raise BodyTooLarge(f"A policy has at most {MAX_DOCUMENT_BYTES} bytes.", remedy="Use groups instead of lists.")
    return text


_DocumentText = Annotated[bytes, Depends(document_text)]


@router.get("", operation_id="listPolicies")
def list_policies(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="A part of slug or name.")] = "",
    published: Annotated[bool | None, Query(description="Whether a version of it is in force.")] = None,
) -> Page[Policy]:
    """Each with the sites where it decides."""
    with access.read() as session:
        rows = policies.list_page(session, tenant_id=access.tenant_id, span=paging.span, text=text, published=published)
        sites = policies.sites_by_policy(session, tenant_id=access.tenant_id, policies=rows)
        return paging.ordered(rows, lambda row: _policy(row, sites.get(row.id, ())))


@router.post("", status_code=201, operation_id="createPolicy")
def create_policy(access: Changes, body: PolicyInput) -> Policy:
    """Without versions: where it is assigned, everything is denied until one is published."""
    with access.change() as change:
        row = policies.create_policy(
            change.session, actor=access.actor, tenant_id=access.tenant_id, slug=body.slug, name=body.name
        )
        change.located(row.slug)
        return change.answer(_policy(row, ()))


@router.get("/{policy}", operation_id="getPolicy")
def get_policy(access: Reads, policy: PolicySlug) -> Policy:
    with access.read() as session:
        return access.shown(_read(session, access, policy))


@router.patch("/{policy}", operation_id="updatePolicy")
def update_policy(access: Changes, policy: PolicySlug, body: PolicyUpdate) -> Policy:
    """Its name; the slug, by which all else names it, stays."""
    with access.change() as change:
        change.require_match(_read(change.session, access, policy, lock=True))
        who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id}
        policies.rename_policy(change.session, **who, slug=policy, name=body.name)
        return change.answer(_read(change.session, access, policy))


@router.delete("/{policy}", status_code=204, operation_id="deletePolicy")
def delete_policy(access: Changes, policy: PolicySlug) -> None:
    """With all its versions; it must decide at no site."""
    with access.change() as change:
        change.require_match(_read(change.session, access, policy, lock=True))
        policies.delete_policy(change.session, actor=access.actor, tenant_id=access.tenant_id, slug=policy)
        change.answer_nothing()


@router.get("/{policy}/versions", operation_id="listPolicyVersions")
def list_versions(
    access: Reads, policy: PolicySlug, paging: Annotated[OrderedPaging, Depends(sorted_by(VERSION_ORDERS))]
) -> Page[PolicyVersionSummary]:
    """Newest first, unless `sort` says otherwise."""
    with access.read() as session:
        rows = policies.list_versions(session, tenant_id=access.tenant_id, slug=policy, span=paging.span)
        return paging.ordered(rows, _in_short)


@router.get("/{policy}/versions/{version}", operation_id="getPolicyVersion")
def get_version(access: Reads, policy: PolicySlug, version: Annotated[int, Path(ge=1, le=2**31 - 1)]) -> PolicyVersion:
    """With its document."""
    with access.read() as session:
        row = policies.require_version(session, tenant_id=access.tenant_id, slug=policy, number=version)
        return access.shown(version_of(row))


@router.get("/{policy}/draft", operation_id="getPolicyDraft")
def get_draft(access: Reads, policy: PolicySlug) -> PolicyVersion:
    """The version that would be published."""
    with access.read() as session:
        row = policies.get_draft(session, tenant_id=access.tenant_id, slug=policy)
        if row is None:
            raise policies.PolicyVersionNotFound("There is no draft.", place="policy", remedy="Save one.")
        return access.shown(version_of(row))


@router.put("/{policy}/draft", operation_id="updatePolicyDraft", openapi_extra=_AS_DOCUMENT)
def save_draft(
    access: Changes,
    policy: PolicySlug,
    text: _DocumentText,
    comment: Annotated[Comment, Query(description="What changed and why.")] = "",
) -> PolicyVersion:
    """The body is the document. It becomes the newest version, and decides nothing until it is published.

    `If-Match` with the draft's ETag: only if nobody has saved another one meanwhile.
    """
    try:
        document = read_policy_text(text)
    except PolicyErrors as errors:
        raise policies.InvalidPolicy(errors.mistakes) from errors
    if not isinstance(document, dict):
        raise InvalidInput("It must be an object.", place="body", remedy=_ITSELF)
    with access.change() as change:
        before = policies.get_draft(change.session, tenant_id=access.tenant_id, slug=policy, lock=True)
        if before is not None:
            change.require_match(version_of(before))
        elif change.request.headers.get("if-match") is not None:
            raise HasChanged("There is no draft.", remedy="Look at what is in force, and decide anew.")
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
        return change.answer(version_of(row))


@router.post(
    "/{policy}/publish",
    operation_id="publishPolicy",
    response_model=PolicyVersion | Job,
    responses={202: {"model": Job, "description": "A job: there are many requests to replay before."}},
)
def publish_policy(
    access: Publishes, response: Response, policy: PolicySlug, body: PublicationInput
) -> PolicyVersion | Job:
    """Put the draft in force at every site that the policy is assigned to.

    Refused (409) where a test of the policy fails (`policy-tests-failed`, with `failed_tests`) and, if the tenant asks
    for a replay, where the draft would answer recorded requests otherwise and nobody acknowledged that
    (`unacknowledged-differences`, with the `replay`, whose `digest` acknowledges them). Where that replay takes long, a
    job publishes (202), and is refused in the same way.

    `If-Match` is of the policy, and compared when this is asked for; that the draft is the one that was looked at, says
    `version`. The `ETag` of the answer is the policy's, with 202 the job's: read the policy again once that is done.
    """
    with access.change() as change:
        _require_match(change, access, policy)
        who: dict[str, Any] = {"tenant_id": access.tenant_id, "slug": policy}
        # The draft of now: what others save while the job waits was seen by nobody who may publish. Without a draft
        # there is nothing that a job could wait for.
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
            return change.answer(accepted(access, response, row))
        version = policies.publish_policy(
            change.session,
            **who,
            actor=access.actor,
            number=body.version,
            acknowledge=body.acknowledge,
        )
        return change.answer(version_of(version), state=_read(change.session, access, policy))


@router.post("/{policy}/roll-back", operation_id="rollBackPolicy")
def roll_back(access: Publishes, policy: PolicySlug, body: PolicyRollback) -> PolicyVersion:
    """Put an earlier version back in force, as a new version. Its tests must pass; no replay is asked for."""
    with access.change() as change:
        _require_match(change, access, policy)
        who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "slug": policy}
        with body_references():
            row = policies.roll_back_policy(change.session, **who, number=body.version, comment=body.comment)
        change.session.refresh(row)
        return change.answer(version_of(row), state=_read(change.session, access, policy))


@router.get("/{policy}/hits", operation_id="getPolicyHits")
def get_hits(access: Reads, policy: PolicySlug) -> PolicyHits:
    """How often each rule of the version in force decided, and when last."""
    with access.read() as session:
        counts = count_hits(session, tenant_id=access.tenant_id, slug=policy)
        rows = [RuleHits.model_validate(row) for row in hit_rows(counts)]
        return PolicyHits(slug=counts.slug, version=counts.version, published_at=counts.published_at, rules=rows)


def _require_match(change: Change, access: Access, slug: str) -> None:
    """A replay before publishing takes a minute, in which nobody waits who need not."""
    change.require_match(_read(change.session, access, slug, lock=change.compares))


def _read(session: Session, access: Access, slug: str, *, lock: bool = False) -> Policy:
    row = policies.require_by_slug(session, tenant_id=access.tenant_id, slug=slug, lock=lock)
    sites = policies.sites_by_policy(session, tenant_id=access.tenant_id, policies=[row])
    return _policy(row, sites.get(row.id, ()))


def _policy(row: PolicyRow, sites: Sequence[str]) -> Policy:
    return Policy(id=row.id, slug=row.slug, name=row.name, published_version=row.published_version, sites=list(sites))


def _in_short(row: PolicyVersionRow) -> PolicyVersionSummary:
    return PolicyVersionSummary(
        version=row.number,
        status=cast(Any, row.status),
        comment=row.comment,
        created_at=row.created_at,
        published_at=row.published_at,
    )


def version_of(row: PolicyVersionRow) -> PolicyVersion:
    return PolicyVersion(
        **_in_short(row).model_dump(),
        document=cast("dict[str, Any]", order_keys(row.document)),
        written=row.written,
        replayed=row.replayed,
    )
