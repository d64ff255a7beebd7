"""Service for a tenant's policies: drafts, publishing, rollback.

Stored versions never change. A policy has at most one draft; saving another draft supersedes it. Publishing checks
the document again, because groups and dictionaries may have changed. Publishing runs the policy tests and, if the
tenant requires it, a replay (`nac.policies.publish_gate`).
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.engine import Policy as Compiled
from nac.engine import PolicyErrors, parse_policy_text
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, Conflict, InUse, InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_name, require_slug
from nac.models import Policy, PolicyVersion
from nac.policies import publish_gate, repository
from nac.policies.document_checks import (
    DictionaryMissing,
    InvalidPolicy,
    check_at_site,
    check_at_sites,
    check_document,
    check_fallback,
    find_unsupported_at_site,
    require_dictionary,
)
from nac.policies.policy_test_runner import PolicyTestResult, PolicyTestsFailed, require_passed, run_tests
from nac.policies.publish_gate import UnacknowledgedDifferences
from nac.policies.repository import ORDERS as ORDERS
from nac.policies.site_context import site_contexts_by_slug

__all__ = [
    "DictionaryMissing",
    "InvalidPolicy",
    "NothingToPublish",
    "PolicyNotFound",
    "PolicyTestsFailed",
    "PolicyVersionNotFound",
    "UnacknowledgedDifferences",
    "check_at_site",
    "check_document",
    "check_fallback",
    "create_policy",
    "delete_policy",
    "find_policy",
    "find_unsupported_at_site",
    "get_draft",
    "list_page",
    "list_policies",
    "list_versions",
    "publish_policy",
    "require_by_slug",
    "require_newest_version",
    "require_version",
    "roll_back_policy",
    "run_document_tests",
    "save_draft",
    "sites_by_policy",
]


_audit: audit.AuditRecorder[Policy] = audit.AuditRecorder("policy", lambda policy: policy.slug)


class PolicyNotFound(NotFound):
    """The policy does not exist."""


class PolicyVersionNotFound(NotFound):
    """The policy version does not exist."""


class NothingToPublish(Conflict):
    """The policy has no draft to publish."""


def create_policy(session: Session, *, actor: str, tenant_id: TenantId, slug: str, name: str = "") -> Policy:
    """Create a policy without versions. A site that uses the policy denies everything until a version is
    published."""
    require_slug(slug)
    if repository.get_by_slug(session, tenant_id, slug):
        raise AlreadyExists(f"Policy {slug!r} already exists.", place="slug")
    policy = Policy(tenant_id=tenant_id, slug=slug, name=require_name(name or slug))
    session.add(policy)
    session.flush()
    _audit(session, actor, policy, "create", after={"name": policy.name})
    return policy


def rename_policy(session: Session, *, actor: str, tenant_id: TenantId, slug: str, name: str) -> Policy:
    """Change the name of a policy, but not its slug."""
    policy = _require_locked(session, tenant_id, slug)
    before = policy.name
    policy.name = require_name(name or slug)
    session.flush()
    if policy.name != before:
        _audit(session, actor, policy, "rename", before={"name": before}, after={"name": policy.name})
    return policy


def save_draft(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    slug: str,
    document: object,
    comment: str = "",
    written: str | None = None,
    refuse_absent: bool = True,
) -> PolicyVersion:
    """Store a document as the draft, with the next version number. Raises InvalidPolicy with every mistake.

    `written` is the original text of `document`, stored for display. `check_document` explains `refuse_absent`.
    """
    policy = _require_locked(session, tenant_id, slug)
    check_document(session, tenant_id=tenant_id, document=document, refuse_absent=refuse_absent, keep=True)
    if written is not None and _parse_written(written) != document:
        raise InvalidInput("The text and the document of the policy have different contents.", place="written")
    _supersede(session, policy, "draft")
    version = _create_version(session, policy, document, comment, written)
    _audit(session, actor, policy, "save-draft", after={"version": version.number, "comment": comment})
    return version


def _parse_written(written: str) -> object:
    try:
        return parse_policy_text(written)
    except PolicyErrors as errors:
        raise InvalidPolicy(errors.mistakes) from errors


def run_document_tests(
    session: Session, *, tenant_id: TenantId, document: object, refuse_unreachable: bool = True
) -> Sequence[PolicyTestResult]:
    """Run all tests of a document. Raises InvalidPolicy."""
    policy = check_document(session, tenant_id=tenant_id, document=document, refuse_unreachable=refuse_unreachable)
    return _run_tests(session, tenant_id, policy, document)


def _run_tests(session: Session, tenant_id: TenantId, policy: Compiled, document: object) -> Sequence[PolicyTestResult]:
    replies = require_dictionary(session, tenant_id=tenant_id)
    return run_tests(policy, document, site_contexts_by_slug(session, tenant_id=tenant_id), replies=replies)


def publish_policy(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    slug: str,
    number: int | None = None,
    acknowledge: str = "",
    refuse_absent: bool = True,
) -> PolicyVersion:
    """Publish the draft.

    With `number`, raises Conflict if the draft has another number, because the caller has reviewed the version
    `number`. Raises InvalidPolicy or PolicyTestsFailed. If the tenant requires a replay, raises
    UnacknowledgedDifferences unless `acknowledge` is the digest of the differences.
    """
    policy = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    draft, in_force = _require_draft(session, policy, number), policy.published_version
    checked = check_document(session, tenant_id=tenant_id, document=draft.document, refuse_absent=refuse_absent)
    require_passed(_run_tests(session, tenant_id, checked, draft.document))
    check_at_sites(session, tenant_id=tenant_id, policy_id=policy.id, document=draft.document, keep=False)
    replayed = publish_gate.require_acknowledged(
        session,
        actor=actor,
        tenant_id=tenant_id,
        policy=policy,
        document=draft.document,
        acknowledge=acknowledge,
    )
    # Lock only now, because a replay can take a minute and must not block other users.
    policy = _require_locked(session, tenant_id, slug)
    if _require_draft(session, policy, number).number != draft.number or policy.published_version != in_force:
        raise Conflict("The policy changed meanwhile.", place="policy", remedy="Reload the policy and try again.")
    # Check again, because sites, and objects that the policy names, may have changed during the replay. This check also
    # locks the objects.
    check_document(session, tenant_id=tenant_id, document=draft.document, refuse_absent=refuse_absent, keep=True)
    check_at_sites(session, tenant_id=tenant_id, policy_id=policy.id, document=draft.document)
    draft.replayed = replayed
    _publish_version(session, actor, policy, draft, "publish")
    return draft


def _require_draft(session: Session, policy: Policy, number: int | None) -> PolicyVersion:
    draft = next(iter(repository.list_versions_in_status(session, policy.tenant_id, policy.id, "draft")), None)
    if draft is None:
        raise NothingToPublish(remedy="Save a draft first, or roll back to an earlier published version.")
    if number is not None and draft.number != number:
        raise Conflict(
            f"The draft is version {draft.number}, not {number}.",
            place="version",
            remedy="Review the draft, then publish it.",
        )
    return draft


def roll_back_policy(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    slug: str,
    number: int,
    comment: str = "",
    refuse_absent: bool = True,
) -> PolicyVersion:
    """Publish an earlier published version again, as a new version. An existing draft remains.

    Raises InvalidPolicy or PolicyTestsFailed. A rollback needs no replay.
    """
    policy = _require_locked(session, tenant_id, slug)
    old = _require_version(session, policy, number)
    if old.published_at is None:
        raise Conflict(
            f"Version {number} was never published.",
            place="version",
            remedy="Save the version as a draft and publish the draft.",
        )
    if policy.published_version == number:
        raise Conflict(f"Version {number} is already published.", place="version")
    # The version was published before, so unreachable rules must not block the rollback.
    checked = check_document(
        session,
        tenant_id=tenant_id,
        document=old.document,
        refuse_unreachable=False,
        refuse_absent=refuse_absent,
        keep=True,
    )
    require_passed(_run_tests(session, tenant_id, checked, old.document))
    check_at_sites(session, tenant_id=tenant_id, policy_id=policy.id, document=old.document)
    version = _create_version(session, policy, old.document, comment or f"Back to version {number}", old.written)
    _publish_version(session, actor, policy, version, "roll-back")
    return version


def delete_policy(session: Session, *, actor: str, tenant_id: TenantId, slug: str) -> None:
    """Delete a policy with its versions and hit counts. Raises InUse while a site uses the policy."""
    policy = _require_locked(session, tenant_id, slug)
    if using := repository.site_slugs_of_policy(session, tenant_id, policy.id):
        raise InUse(
            f"Sites use policy {slug!r}: {', '.join(using)}.",
            place="policy",
            remedy=Advice("Assign another policy first", NextStep("updateSite", {"policy": ""})),
        )
    repository.delete(session, policy)
    _audit(session, actor, policy, "remove", before={"name": policy.name, "version": policy.published_version})


def list_policies(session: Session, *, tenant_id: TenantId) -> Sequence[Policy]:
    return repository.list_all(session, tenant_id)


def list_page(
    session: Session,
    *,
    tenant_id: TenantId,
    span: PageSpan | None = None,
    text: str = "",
    published: bool | None = None,
) -> Sequence[Policy]:
    """List one page of policies. `text` filters by a part of the slug or name.

    `published` selects policies with (True) or without (False) a published version.
    """
    return repository.list_page(session, tenant_id, span=span or ORDERS.first(), text=text, published=published)


def sites_by_policy(session: Session, *, tenant_id: TenantId, policies: Iterable[Policy]) -> dict[UUID, list[str]]:
    """Return the slugs of the sites of each policy. Unused policies have no entry."""
    return repository.sites_by_policy(session, tenant_id, [policy.id for policy in policies])


def get_draft(session: Session, *, tenant_id: TenantId, slug: str, lock: bool = False) -> PolicyVersion | None:
    """Return the draft of the policy, or None. `lock` blocks saving and publishing until the transaction ends."""
    policy = (
        _require_locked(session, tenant_id, slug) if lock else require_by_slug(session, tenant_id=tenant_id, slug=slug)
    )
    return next(iter(repository.list_versions_in_status(session, tenant_id, policy.id, "draft")), None)


def list_versions(
    session: Session, *, tenant_id: TenantId, slug: str, span: PageSpan | None = None
) -> Sequence[PolicyVersion]:
    """List versions of the policy: the page `span`, or by default the newest 100 versions."""
    policy = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    return repository.list_versions(session, tenant_id, policy.id, span=span or repository.VERSION_ORDERS.first(100))


def require_by_slug(session: Session, *, tenant_id: TenantId, slug: str, lock: bool = False) -> Policy:
    find = repository.lock_by_slug if lock else repository.get_by_slug
    policy = find(session, tenant_id, slug)
    if policy is None:
        raise _not_found(slug)
    return policy


def find_policy(session: Session, *, tenant_id: TenantId, slug: str = "") -> Policy:
    """Find a policy by slug; "" means the tenant's only policy."""
    if slug:
        return require_by_slug(session, tenant_id=tenant_id, slug=slug)
    policies = list_policies(session, tenant_id=tenant_id)
    if not policies:
        raise PolicyNotFound(
            "The tenant has no policy.",
            place="slug",
            remedy=Advice("Create a policy and save its draft.", "createPolicy", "updatePolicyDraft"),
        )
    if len(policies) > 1:
        names = ", ".join(policy.slug for policy in policies)
        raise InvalidInput("The tenant has several policies.", place="slug", remedy=f"Choose a policy: {names}.")
    return policies[0]


def require_version(session: Session, *, tenant_id: TenantId, slug: str, number: int | None = None) -> PolicyVersion:
    """Return a version.

    Without `number`, returns the published version, or the newest version if no version is published.
    """
    policy = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    if number is None:
        number = policy.published_version or repository.get_newest_number(session, tenant_id, policy.id)
    return _require_version(session, policy, number)


def require_newest_version(
    session: Session, *, tenant_id: TenantId, slug: str, number: int | None = None
) -> PolicyVersion:
    """Return a version. Without `number`, returns the newest version."""
    policy = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    return _require_version(session, policy, number or repository.get_newest_number(session, tenant_id, policy.id))


def _require_locked(session: Session, tenant_id: TenantId, slug: str) -> Policy:
    policy = repository.lock_by_slug(session, tenant_id, slug)
    if policy is None:
        raise _not_found(slug)
    return policy


def _not_found(slug: str) -> PolicyNotFound:
    return PolicyNotFound(f"Unknown policy {slug!r}.", place="policy", remedy=Advice("List policies", "listPolicies"))


def _require_version(session: Session, policy: Policy, number: int) -> PolicyVersion:
    version = repository.get_version(session, policy.tenant_id, policy.id, number)
    if version is None:
        raise PolicyVersionNotFound(
            f"Version {number} of policy {policy.slug!r} does not exist.",
            place="version",
            remedy=Advice("List versions", NextStep("listPolicyVersions", {"policy": policy.slug})),
        )
    return version


def _create_version(
    session: Session, policy: Policy, document: object, comment: str, written: str | None
) -> PolicyVersion:
    number = repository.get_newest_number(session, policy.tenant_id, policy.id) + 1
    version = PolicyVersion(
        tenant_id=policy.tenant_id,
        policy_id=policy.id,
        number=number,
        document=document,
        status="draft",
        comment=comment,
        written=written,
    )
    session.add(version)
    session.flush()
    return version


def _supersede(session: Session, policy: Policy, status: str) -> None:
    for version in repository.list_versions_in_status(session, policy.tenant_id, policy.id, status):
        version.status = "superseded"
    session.flush()


def _publish_version(session: Session, actor: str, policy: Policy, version: PolicyVersion, verb: str) -> None:
    _supersede(session, policy, "published")
    before = policy.published_version
    version.status = "published"
    version.published_at = utc_now()
    policy.published_version = version.number
    session.flush()
    after: dict[str, object] = {"version": version.number}
    if version.replayed is not None:
        after["replayed"] = version.replayed
    _audit(session, actor, policy, verb, before={"version": before}, after=after)
