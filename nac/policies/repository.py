from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import delete as sql_delete
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import EndpointGroup, IdentitySource, Nas, Policy, PolicyHits, PolicyVersion, Site, UserGroup

ORDERS = SortOrders({"slug": (Policy.slug,), "name": (Policy.name, Policy.id)})
VERSION_ORDERS = SortOrders({"number": (PolicyVersion.number,)}, default="-number")
_MODEL_BY_KIND: dict[str, type[EndpointGroup] | type[UserGroup] | type[Site] | type[Nas] | type[IdentitySource]] = {
    "endpoint-group": EndpointGroup,
    "user-group": UserGroup,
    "site": Site,
    "nas": Nas,
    "identity-source": IdentitySource,
}


def get_by_slug(session: Session, tenant_id: TenantId, slug: str) -> Policy | None:
    return session.scalar(select(Policy).where(Policy.tenant_id == tenant_id, Policy.slug == slug))


def lock_by_slug(session: Session, tenant_id: TenantId, slug: str) -> Policy | None:
    """Lock the policy until the transaction ends, so that concurrent saves get consecutive version numbers."""
    return session.scalar(
        select(Policy)
        .where(Policy.tenant_id == tenant_id, Policy.slug == slug)
        .with_for_update()
        .execution_options(populate_existing=True)
    )


def list_page(
    session: Session, tenant_id: TenantId, *, span: PageSpan, text: str, published: bool | None
) -> Sequence[Policy]:
    query = span.of(select(Policy).where(Policy.tenant_id == tenant_id))
    if text:
        query = query.where(contains_text(text, Policy.slug, Policy.name))
    if published is not None:
        in_force = Policy.published_version.is_not(None)
        query = query.where(in_force if published else ~in_force)
    return session.scalars(query).all()


def sites_by_policy(session: Session, tenant_id: TenantId, ids: Collection[UUID]) -> dict[UUID, list[str]]:
    """Return the slugs of the sites of each policy."""
    query = select(Site.policy_id, Site.slug).where(Site.tenant_id == tenant_id, Site.policy_id.in_(ids))
    found: dict[UUID, list[str]] = {}
    for policy_id, slug in session.execute(query.order_by(Site.slug)):
        assert policy_id is not None
        found.setdefault(policy_id, []).append(slug)
    return found


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Policy]:
    return session.scalars(select(Policy).where(Policy.tenant_id == tenant_id).order_by(Policy.slug)).all()


def get_newest_number(session: Session, tenant_id: TenantId, policy_id: UUID) -> int:
    """Return the newest version number; 0 if the policy has no versions."""
    query = select(func.max(PolicyVersion.number)).where(
        PolicyVersion.tenant_id == tenant_id, PolicyVersion.policy_id == policy_id
    )
    return session.scalar(query) or 0


def get_version(session: Session, tenant_id: TenantId, policy_id: UUID, number: int) -> PolicyVersion | None:
    return session.scalar(
        select(PolicyVersion).where(
            PolicyVersion.tenant_id == tenant_id, PolicyVersion.policy_id == policy_id, PolicyVersion.number == number
        )
    )


def list_versions_in_status(
    session: Session, tenant_id: TenantId, policy_id: UUID, status: str
) -> Sequence[PolicyVersion]:
    return session.scalars(
        select(PolicyVersion).where(
            PolicyVersion.tenant_id == tenant_id, PolicyVersion.policy_id == policy_id, PolicyVersion.status == status
        )
    ).all()


def get_published_version(session: Session, tenant_id: TenantId, policy_id: UUID) -> PolicyVersion | None:
    return next(iter(list_versions_in_status(session, tenant_id, policy_id, "published")), None)


def sites_of_policy(session: Session, tenant_id: TenantId, policy_id: UUID) -> Sequence[Site]:
    """Return the sites that use the policy, in the order of their slugs."""
    query = select(Site).where(Site.tenant_id == tenant_id, Site.policy_id == policy_id)
    return session.scalars(query.order_by(Site.slug)).all()


def list_nases_at(session: Session, tenant_id: TenantId, site_id: UUID) -> Sequence[Nas]:
    query = select(Nas).where(Nas.tenant_id == tenant_id, Nas.site_id == site_id)
    return session.scalars(query.order_by(Nas.name, Nas.id)).all()


def get_published_documents(session: Session, tenant_id: TenantId) -> dict[UUID, object]:
    """Return the published documents by policy id."""
    query = select(PolicyVersion.policy_id, PolicyVersion.document).join(
        Policy,
        (Policy.tenant_id == PolicyVersion.tenant_id)
        & (Policy.id == PolicyVersion.policy_id)
        & (Policy.published_version == PolicyVersion.number),
    )
    return dict(session.execute(query.where(PolicyVersion.tenant_id == tenant_id)).all())


def site_slugs_of_policy(session: Session, tenant_id: TenantId, policy_id: UUID) -> Sequence[str]:
    query = select(Site.slug).where(Site.tenant_id == tenant_id, Site.policy_id == policy_id).order_by(Site.slug)
    return session.scalars(query).all()


def delete(session: Session, policy: Policy) -> None:
    """Delete the policy, its versions (by foreign key) and its hit counts."""
    of_policy = PolicyHits.tenant_id == policy.tenant_id, PolicyHits.policy_id == policy.id
    session.execute(sql_delete(PolicyHits).where(*of_policy))
    session.execute(sql_delete(Policy).where(Policy.tenant_id == policy.tenant_id, Policy.id == policy.id))


def list_versions(session: Session, tenant_id: TenantId, policy_id: UUID, *, span: PageSpan) -> Sequence[PolicyVersion]:
    query = select(PolicyVersion).where(PolicyVersion.tenant_id == tenant_id, PolicyVersion.policy_id == policy_id)
    return session.scalars(span.of(query)).all()


def known_names(session: Session, tenant_id: TenantId, kind: str, names: frozenset[str], *, keep: bool) -> set[str]:
    """Return the names in `names` that exist. `keep` locks the existing objects until the transaction ends.

    `kind` is a `ReferenceKind`.
    """
    model = _MODEL_BY_KIND[kind]
    query = select(model.name).where(model.tenant_id == tenant_id, model.name.in_(names))
    # nac.core.locking explains the lock order.
    kept = query.order_by(model.id).with_for_update(read=True, key_share=True)
    return set(session.scalars(kept if keep else query))


def folded_names(session: Session, tenant_id: TenantId, kind: str) -> set[str]:
    """Return the case-folded names of all objects of this kind."""
    model = _MODEL_BY_KIND[kind]
    return {name.casefold() for name in session.scalars(select(model.name).where(model.tenant_id == tenant_id))}


def has_identity_sources(session: Session, tenant_id: TenantId) -> bool:
    query = select(IdentitySource.id).where(IdentitySource.tenant_id == tenant_id).limit(1)
    return session.scalar(query) is not None


def known_site_slugs(session: Session, tenant_id: TenantId, slugs: frozenset[str]) -> set[str]:
    """Return the slugs in `slugs` that are sites of the tenant."""
    return set(session.scalars(select(Site.slug).where(Site.tenant_id == tenant_id, Site.slug.in_(slugs))))
