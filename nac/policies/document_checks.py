"""Validation of policy documents for a tenant: form, replies and names. Reports all mistakes of a document together."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.engine import (
    DocumentMistake,
    Outcome,
    Policy,
    PolicyErrors,
    compile_outcome,
    compile_policy,
    find_unstorable,
    references,
)
from nac.engine.dictionary import Dictionary, from_json
from nac.engine.mistakes import problem_members
from nac.engine.reasons import REASONS
from nac.engine.references import PolicyReference, ReferenceKind
from nac.engine.vendors import POOL_KEYS
from nac.kit.advice import Advice, NextStep
from nac.kit.errors import Conflict, InvalidInput
from nac.kit.ids import TenantId
from nac.models import Nas, Pool, Site
from nac.policies import repository
from nac.policies.nas_support import find_unsupported
from nac.pools.extent import ATTRIBUTE_BY_KIND
from nac.tenancy.cells import service as cells

_KIND_NAMES: dict[ReferenceKind, str] = {
    "endpoint-group": "endpoint group",
    "user-group": "user group",
    "site": "site",
    "nas": "NAS",
    "identity-source": "identity source",
}
# Kinds of objects that a policy can name although they do not exist: a tenant may lack an object that the policy of a
# template names, and an object can be deleted while a policy names it.
_MAY_BE_ABSENT: frozenset[ReferenceKind] = frozenset(("nas", "identity-source"))
_CREATE_STEPS: dict[ReferenceKind, NextStep] = {
    "endpoint-group": NextStep("createEndpointGroup"),
    "user-group": NextStep("createUserGroup"),
    "site": NextStep("createSite"),
    "nas": NextStep("createNas"),
    "identity-source": NextStep("createIdentitySource"),
}


class InvalidPolicy(InvalidInput):
    """The policy has mistakes. Nothing was stored."""

    def __init__(self, mistakes: Sequence[DocumentMistake]) -> None:
        """`mistakes` are the mistakes of a PolicyErrors, and the names of objects that do not exist."""
        super().__init__("; ".join(str(mistake) for mistake in mistakes))
        self.mistakes = tuple(mistakes)

    @property
    def members(self) -> Mapping[str, Any]:
        return problem_members("The policy", self.mistakes)


class DictionaryMissing(Conflict):
    """The tenant's cell has not uploaded radiusd's dictionaries."""


def check_document(
    session: Session,
    *,
    tenant_id: TenantId,
    document: object,
    refuse_unreachable: bool = True,
    refuse_absent: bool = False,
    keep: bool = False,
) -> Policy:
    """Compile a document. Raises InvalidPolicy with every mistake, or DictionaryMissing.

    `refuse_absent` also rejects names of unknown NASes and identity sources, because rules with such names never match.
    Set `refuse_absent` if the caller saves, publishes or rolls back a policy. Do not set `refuse_absent` for the policy
    of a template (not every tenant has the same NASes and identity sources), for the policies of a tenant file (a
    policy can name a deleted NAS or identity source), or for simulations. `keep` prevents deletion of the objects that
    the document names until the transaction ends.
    """
    replies = require_dictionary(session, tenant_id=tenant_id)
    if unreadable := find_unstorable(document):
        raise InvalidPolicy(unreadable)
    policy = Policy()
    mistakes = [
        *_dangling_references(session, tenant_id, document, refuse_absent=refuse_absent, keep=keep),
        *_test_mistakes(session, tenant_id, document),
        *pool_mistakes(session, tenant_id, document, keep=keep),
    ]
    try:
        policy = compile_policy(document, replies=replies, refuse_unreachable=refuse_unreachable)
    except PolicyErrors as errors:
        mistakes = [*errors.mistakes, *mistakes]
    if mistakes:
        raise InvalidPolicy(mistakes)
    return policy


def check_at_sites(
    session: Session, *, tenant_id: TenantId, policy_id: UUID, document: object, keep: bool = True
) -> None:
    """Check that the NASes and pools at the policy's sites support the policy's results. Raises InvalidPolicy.

    `keep` prevents deletion of the pools that the policy names until the transaction ends.
    """
    mistakes = [
        mistake
        for site in repository.sites_of_policy(session, tenant_id, policy_id)
        for mistake in _site_mistakes(session, site, document, keep=keep)
    ]
    if mistakes:
        raise InvalidPolicy(mistakes)


def check_at_site(session: Session, *, site: Site, policy_id: UUID | None) -> None:
    """Check that the NASes and pools of a site support the policy's published version and the site's fallback.

    Raises InvalidPolicy.
    """
    if mistakes := _site_mistakes(session, site, _document_in_force(session, site, policy_id), keep=True):
        raise InvalidPolicy(mistakes)


def find_unsupported_at_site(session: Session, *, site: Site, nas: Nas) -> list[DocumentMistake]:
    """Return the results of the site's policy and of its fallback that one NAS does not support."""
    return _find_unsupported(site, _document_in_force(session, site, site.policy_id), [nas])


def _document_in_force(session: Session, site: Site, policy_id: UUID | None) -> object:
    version = None if policy_id is None else repository.get_published_version(session, site.tenant_id, policy_id)
    return version.document if version else {}


def _site_mistakes(session: Session, site: Site, document: object, *, keep: bool) -> list[DocumentMistake]:
    unfit = _find_unsupported(site, document, repository.list_nases_at(session, site.tenant_id, site.id))
    return [*unfit, *pool_mistakes_at(session, site, document, site.fallback, keep=keep)]


def _find_unsupported(site: Site, document: object, nases: Sequence[Nas]) -> list[DocumentMistake]:
    if not nases:
        return []
    try:
        return find_unsupported(compile_policy(document, fallback=site.fallback), site, nases)
    except PolicyErrors as errors:
        return list(errors.mistakes)


def check_fallback(session: Session, *, tenant_id: TenantId, document: object) -> Outcome:
    """Compile the fallback of a site. Raises InvalidPolicy or DictionaryMissing."""
    try:
        outcome = compile_outcome(document, replies=require_dictionary(session, tenant_id=tenant_id))
    except PolicyErrors as errors:
        raise InvalidPolicy(errors.mistakes) from errors
    if mistakes := pool_mistakes(session, tenant_id, document, keep=True):
        raise InvalidPolicy(mistakes)
    return outcome


def require_dictionary(session: Session, *, tenant_id: TenantId) -> Dictionary:
    """Return the dictionaries of the tenant's cell. Raises DictionaryMissing."""
    text = cells.load_dictionary(session, tenant_id=tenant_id)
    if text is None:
        raise DictionaryMissing(
            "Replies cannot be checked: the tenant's cell has not uploaded the dictionaries of its radiusd.",
            remedy="Start the cell's agent, which uploads the dictionaries.",
        )
    return _parse_dictionary(text)


def pool_mistakes(session: Session, tenant_id: TenantId, document: object, *, keep: bool) -> list[DocumentMistake]:
    """Return a mistake for each pool in the document that neither the tenant nor one of its sites has.

    The document can be invalid. `keep` locks the named pools until the transaction ends.
    """
    named = _pool_references(document)
    pools = _load_pools(session, tenant_id, named, keep=keep)
    return [mistake for each in named if (mistake := _find_pool_mistake(each, pools, "")) is not None]


def pool_mistakes_at(session: Session, site: Site, *documents: object, keep: bool) -> list[DocumentMistake]:
    """Return a mistake for each pool that this site cannot use.

    `keep` locks the named pools until the transaction ends.
    """
    named = [each for document in documents for each in _pool_references(document)]
    pools = [pool for pool in _load_pools(session, site.tenant_id, named, keep=keep) if pool.site_id in (None, site.id)]
    # A pool of the site overrides the tenant's pool with the same name.
    own = {pool.name for pool in pools if pool.site_id is not None}
    pools = [pool for pool in pools if pool.site_id is not None or pool.name not in own]
    return [mistake for each in named if (mistake := _find_pool_mistake(each, pools, site.slug)) is not None]


def _test_mistakes(session: Session, tenant_id: TenantId, document: object) -> list[DocumentMistake]:
    """Return a mistake for each unknown site or reason in the policy tests. The document can be invalid."""
    tests = document.get("tests") if isinstance(document, dict) else None
    named = [(f"tests[{index}]", test) for index, test in enumerate(tests if isinstance(tests, list) else ())]
    named = [(place, test) for place, test in named if isinstance(test, dict)]
    slugs = frozenset(test["site"] for _, test in named if isinstance(test.get("site"), str))
    known = repository.known_site_slugs(session, tenant_id, slugs) if slugs else set()
    mistakes = [
        DocumentMistake(f"{place}.site", f"unknown site {test['site']!r}; create the site first")
        for place, test in named
        if isinstance(test.get("site"), str) and test["site"] not in known
    ]
    for place, test in named:
        expect = test.get("expect")
        reason = expect.get("reason") if isinstance(expect, dict) else None
        if isinstance(reason, str) and reason not in REASONS:
            mistakes.append(DocumentMistake(f"{place}.expect.reason", f"unknown reason {reason[:80]!r}"))
    return mistakes


# Parsing takes 15 ms. Cells of one version have the same dictionary.
@lru_cache(maxsize=4)
def _parse_dictionary(text: bytes) -> Dictionary:
    return from_json(text)


def _dangling_references(
    session: Session, tenant_id: TenantId, document: object, *, refuse_absent: bool, keep: bool
) -> list[DocumentMistake]:
    kinds = [kind for kind in _KIND_NAMES if refuse_absent or kind not in _MAY_BE_ABSENT]
    found = [reference for reference in references(document) if reference.kind in kinds]
    missing: set[tuple[str, str]] = set()
    for kind in kinds:
        names = frozenset(reference.name for reference in found if reference.kind == kind)
        if names:
            known = repository.known_names(session, tenant_id, kind, names, keep=keep)
            missing |= {(kind, name) for name in names - known}
    if missing and any(reference.any_case for reference in found):
        missing -= _known_in_other_case(session, tenant_id, found, missing)
    # An unknown group may be a group of the tenant's directory. Admit learns a directory's groups only from logins.
    if any(kind == "user-group" for kind, _ in missing) and repository.has_identity_sources(session, tenant_id):
        missing = {(kind, name) for kind, name in missing if kind != "user-group"}
    return [
        DocumentMistake(
            reference.place,
            Advice(
                f"unknown {_KIND_NAMES[reference.kind]} {reference.name!r}; create this object first",
                _CREATE_STEPS[reference.kind],
            ),
        )
        for reference in found
        if (reference.kind, reference.name) in missing
    ]


def _known_in_other_case(
    session: Session, tenant_id: TenantId, found: Sequence[PolicyReference], missing: set[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return the missing names that exist with different upper and lower case, if a condition ignores case."""
    any_case = {(each.kind, each.name) for each in found if each.any_case} & missing
    folded = {kind: repository.folded_names(session, tenant_id, kind) for kind in {kind for kind, _ in any_case}}
    return {(kind, name) for kind, name in any_case if name.casefold() in folded[kind]}


def _pool_references(document: object) -> list[PolicyReference]:
    return [each for each in references(document) if each.kind == "pool"]


def _load_pools(
    session: Session, tenant_id: TenantId, named: Sequence[PolicyReference], *, keep: bool
) -> Sequence[Pool]:
    if not named:
        return []
    query = select(Pool).where(
        Pool.tenant_id == tenant_id, Pool.name.in_({each.name for each in named}), Pool.removing.is_(False)
    )
    kept = query.order_by(Pool.id).with_for_update(read=True, key_share=True)
    return session.scalars(kept if keep else query).all()


def _find_pool_mistake(reference: PolicyReference, pools: Sequence[Pool], site: str) -> DocumentMistake | None:
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
        why = Advice(f"unknown pool {reference.name!r}{where}; create this object first", "createPool")
    return DocumentMistake(reference.place, why)
