"""Checks that pools in results exist and have the right kind."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.engine import DocumentMistake, references
from nac.engine.references import PolicyReference
from nac.engine.vendors import POOL_KEYS
from nac.kit.advice import Advice
from nac.kit.ids import TenantId
from nac.models import Pool, Site
from nac.pools.extent import ATTRIBUTE_BY_KIND


def pool_mistakes(session: Session, tenant_id: TenantId, document: object, *, keep: bool) -> list[DocumentMistake]:
    """Return mistakes for unknown pools, of tenant or any site. Works on invalid documents, too. `keep` locks the
    named pools until the transaction ends."""
    named = _pool_references(document)
    pools = _load_pools(session, tenant_id, named, keep=keep)
    return [mistake for each in named if (mistake := _find_mistake(each, pools, "")) is not None]


def pool_mistakes_at(session: Session, site: Site, *documents: object, keep: bool) -> list[DocumentMistake]:
    """Return mistakes for pools that this site lacks; `keep` like in `pool_mistakes`."""
    named = [each for document in documents for each in _pool_references(document)]
    pools = [pool for pool in _load_pools(session, site.tenant_id, named, keep=keep) if pool.site_id in (None, site.id)]
    # A site's pool overrides the tenant's.
    own = {pool.name for pool in pools if pool.site_id is not None}
    pools = [pool for pool in pools if pool.site_id is not None or pool.name not in own]
    return [mistake for each in named if (mistake := _find_mistake(each, pools, site.slug)) is not None]


def _pool_references(document: object) -> list[PolicyReference]:
    return [each for each in references(document) if each.kind == "pool"]


def _load_pools(
    session: Session, tenant_id: TenantId, named: Sequence[PolicyReference], *, keep: bool
) -> Sequence[Pool]:
    """Return the pools with these names."""
    if not named:
        return []
    query = select(Pool).where(
        Pool.tenant_id == tenant_id, Pool.name.in_({each.name for each in named}), Pool.removing.is_(False)
    )
    kept = query.order_by(Pool.id).with_for_update(read=True, key_share=True)
    return session.scalars(kept if keep else query).all()


def _find_mistake(reference: PolicyReference, pools: Sequence[Pool], site: str) -> DocumentMistake | None:
    attribute = POOL_KEYS[reference.place.rpartition(".")[2]]
    kinds = {pool.kind for pool in pools if pool.name == reference.name}
    if any(ATTRIBUTE_BY_KIND[kind] == attribute for kind in kinds):
        return None
    where = f" for site {site!r}" if site else ""
    if kinds:
        why = (
            f"pool {reference.name!r}{where} is of kind {', '.join(sorted(kinds))}, which does not support {attribute}"
        )
    else:
        why = Advice(f"unknown pool {reference.name!r}{where}; create it first", "createPool")
    return DocumentMistake(reference.place, why)
