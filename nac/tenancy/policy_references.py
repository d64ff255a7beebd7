"""References from policies to groups, sites and other objects, by name.

Admit checks these references before a user deletes or renames an object. Otherwise a rule that refers to the object
could silently stop matching.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from nac.engine import references
from nac.engine.references import ReferenceKind, distinguishes_names
from nac.kit.advice import Advice
from nac.kit.errors import InUse
from nac.kit.ids import TenantId
from nac.models import Policy, PolicyVersion


@dataclass(frozen=True, slots=True)
class ReferringVersion:
    slug: str
    number: int
    # `published` or `draft`.
    status: str

    def __str__(self) -> str:
        return f"{self.slug} version {self.number} ({self.status})"


def list_referring_versions(
    session: Session, *, tenant_id: TenantId, kind: ReferenceKind, name: str
) -> tuple[ReferringVersion, ...]:
    """Return published versions and drafts that refer to this name.

    The result excludes older published versions, because a rollback to such a version checks the names in it again.
    """
    return _filter_current_versions(session, tenant_id, lambda document: _refers_to(document, kind, name))


def list_referenced_names(session: Session, *, tenant_id: TenantId, kind: ReferenceKind) -> frozenset[str]:
    """Return the names of all objects of this kind to which published versions and drafts refer."""
    rows = _list_current_versions(session, tenant_id)
    return frozenset(each.name for _, version in rows for each in references(version.document) if each.kind == kind)


def require_renamable(
    session: Session, *, tenant_id: TenantId, kind: ReferenceKind, name: str, new_name: str, place: str
) -> None:
    """Raise InUse if a policy refers to the name, or if a policy's condition gives another result for the new name."""
    versions = _filter_current_versions(
        session,
        tenant_id,
        lambda document: _refers_to(document, kind, name) or distinguishes_names(document, kind, name, new_name),
    )
    if versions:
        raise InUse(
            f"Policies use the name {name!r} or treat {new_name!r} differently: {_join_versions(versions)}.",
            place=place,
            remedy="Remove the name from these policies first, or choose another name.",
        )


def require_unreferenced(
    session: Session, *, tenant_id: TenantId, kind: ReferenceKind, name: str, place: str, also: str = ""
) -> None:
    """Raise InUse if a policy refers to the name.

    The error lists the policies, and ends with the sentence `also`. Lock the object's row before this call, so that no
    other transaction can save a policy that refers to the object (`nac.policies.repository.known_names`).
    """
    if versions := list_referring_versions(session, tenant_id=tenant_id, kind=kind, name=name):
        raise InUse(
            f"Policies use {name!r}: {_join_versions(versions)}.{also and ' ' + also}",
            place=place,
            remedy=Advice(
                "Remove the name from these policies first. Then publish each policy that was published before.",
                *("getPolicyVersion", "updatePolicyDraft", "publishPolicy"),
            ),
        )


def _refers_to(document: object, kind: ReferenceKind, name: str) -> bool:
    return any(found.kind == kind and found.name == name for found in references(document))


def _join_versions(versions: Sequence[ReferringVersion]) -> str:
    return ", ".join(map(str, versions))


def _filter_current_versions(
    session: Session, tenant_id: TenantId, refers: Callable[[object], bool]
) -> tuple[ReferringVersion, ...]:
    return tuple(
        ReferringVersion(slug, version.number, version.status)
        for slug, version in _list_current_versions(session, tenant_id)
        if refers(version.document)
    )


def _list_current_versions(session: Session, tenant_id: TenantId) -> Sequence[Row[str, PolicyVersion]]:
    """Return published versions and drafts, each with the slug of its policy, ordered by slug and number."""
    return session.execute(
        select(Policy.slug, PolicyVersion)
        .join(Policy, (Policy.tenant_id == PolicyVersion.tenant_id) & (Policy.id == PolicyVersion.policy_id))
        .where(PolicyVersion.tenant_id == tenant_id, PolicyVersion.status.in_(("published", "draft")))
        .order_by(Policy.slug, PolicyVersion.number)
    ).all()
