"""Whether a document may become a policy of a tenant: its form, its replies, the names it refers to, in one answer."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from nac.cells import service as cells
from nac.dictionary import Dictionary, from_json
from nac.engine import (
    Mistake,
    Outcome,
    Policy,
    PolicyErrors,
    check_storable,
    compile_outcome,
    compile_policy,
    references,
)
from nac.engine.mistakes import mistakes_told
from nac.engine.references import Reference, ReferenceKind
from nac.errors import Conflict, InvalidInput
from nac.ids import TenantId
from nac.models import Nas, Site
from nac.policies import repository
from nac.policies.nas_support import find_unsupported
from nac.policies.pool_references import pool_mistakes, pool_mistakes_at
from nac.reasons import REASONS

_KIND_NAMES: dict[ReferenceKind, str] = {
    "endpoint-group": "group of endpoints",
    "user-group": "group of users",
    "site": "site",
    "nas": "NAS",
    "identity-source": "identity source",
}
# Of a template's policy each tenant has or has not its own; and they may be removed while a policy names them.
_MAY_BE_ABSENT: frozenset[ReferenceKind] = frozenset(("nas", "identity-source"))
_CREATE_COMMANDS: dict[ReferenceKind, str] = {
    "endpoint-group": "./admit endpoint-group add",
    "user-group": "./admit user-group add",
    "site": "./admit site add",
    "nas": "./admit nas add",
    "identity-source": "./admit identity-source add",
}


class InvalidPolicy(InvalidInput):
    """The policy has mistakes; nothing was stored."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        """What the engine reports as PolicyErrors, and names that do not exist: every mistake with its place."""
        super().__init__("; ".join(str(mistake) for mistake in mistakes))
        self.mistakes = tuple(mistakes)

    @property
    def members(self) -> Mapping[str, Any]:
        return mistakes_told("The policy", self.mistakes)


class DictionaryMissing(Conflict):
    """The cell of this tenant has not said yet what its radiusd's dictionaries are."""


def check_document(
    session: Session,
    *,
    tenant_id: TenantId,
    document: object,
    refuse_unreachable: bool = True,
    refuse_absent: bool = False,
    keep: bool = False,
) -> Policy:
    """The compiled policy. Raises InvalidPolicy with every mistake and its place, or DictionaryMissing.

    `refuse_absent`: also NASes and identity sources that are named must be there, as whoever saves, publishes or goes
    back is told: a rule of others never matches. Not so for a template's policy, which is the same for tenants that
    have them and that have not; for a tenant file, whose policies may be older than the removal of what they name; and
    for trials, which show what such a policy decides.
    `keep`: what it names stays until the transaction ends.
    """
    replies = require_dictionary(session, tenant_id=tenant_id)
    if unreadable := check_storable(document):
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
    """Whether every NAS at the sites of the policy can do what it answers. `keep` as of `check_document`. Raises
    InvalidPolicy."""
    mistakes = [
        mistake
        for site in repository.sites_of_policy(session, tenant_id, policy_id)
        for mistake in _site_mistakes(session, site, document, keep=keep)
    ]
    if mistakes:
        raise InvalidPolicy(mistakes)


def check_at_site(session: Session, *, site: Site, policy_id: UUID | None) -> None:
    """The same for what would decide at one site: the version in force and the site's own fallback."""
    if mistakes := _site_mistakes(session, site, _document_in_force(session, site, policy_id), keep=True):
        raise InvalidPolicy(mistakes)


def find_unsupported_at_site(session: Session, *, site: Site, nas: Nas) -> list[Mistake]:
    """What one NAS cannot do of what decides at its site."""
    return _find_unsupported(site, _document_in_force(session, site, site.policy_id), [nas])


def _document_in_force(session: Session, site: Site, policy_id: UUID | None) -> object:
    version = None if policy_id is None else repository.get_published_version(session, site.tenant_id, policy_id)
    return version.document if version else {}


def _site_mistakes(session: Session, site: Site, document: object, *, keep: bool) -> list[Mistake]:
    unfit = _find_unsupported(site, document, repository.list_nases_at(session, site.tenant_id, site.id))
    return [*unfit, *pool_mistakes_at(session, site, document, site.fallback, keep=keep)]


def _find_unsupported(site: Site, document: object, nases: Sequence[Nas]) -> list[Mistake]:
    if not nases:
        return []
    try:
        return find_unsupported(compile_policy(document, fallback=site.fallback), site, nases)
    except PolicyErrors as errors:
        return list(errors.mistakes)


def check_fallback(session: Session, *, tenant_id: TenantId, document: object) -> Outcome:
    """The outcome that a site puts in place of its policy's fallback. Raises InvalidPolicy or DictionaryMissing."""
    try:
        outcome = compile_outcome(document, replies=require_dictionary(session, tenant_id=tenant_id))
    except PolicyErrors as errors:
        raise InvalidPolicy(errors.mistakes) from errors
    if mistakes := pool_mistakes(session, tenant_id, document, keep=True):
        raise InvalidPolicy(mistakes)
    return outcome


def require_dictionary(session: Session, *, tenant_id: TenantId) -> Dictionary:
    """What the radiusd of the tenant's cell takes in replies. Raises DictionaryMissing."""
    text = cells.load_dictionary(session, tenant_id=tenant_id)
    if text is None:
        raise DictionaryMissing(
            "The cell of this tenant has not uploaded the dictionaries of its radiusd, so replies cannot be checked.",
            remedy="Start the cell's agent; it uploads them when it starts.",
        )
    return _parse_dictionary(text)


def _test_mistakes(session: Session, tenant_id: TenantId, document: object) -> list[Mistake]:
    """Sites and reasons that the policy's tests name and nobody knows. Works on any document, a wrong one too."""
    tests = document.get("tests") if isinstance(document, dict) else None
    named = [(f"tests[{index}]", test) for index, test in enumerate(tests if isinstance(tests, list) else ())]
    named = [(place, test) for place, test in named if isinstance(test, dict)]
    slugs = frozenset(test["site"] for _, test in named if isinstance(test.get("site"), str))
    known = repository.known_site_slugs(session, tenant_id, slugs) if slugs else set()
    mistakes = [
        Mistake(f"{place}.site", f"there is no site {test['site']!r}; make it first")
        for place, test in named
        if isinstance(test.get("site"), str) and test["site"] not in known
    ]
    for place, test in named:
        expect = test.get("expect")
        reason = expect.get("reason") if isinstance(expect, dict) else None
        if isinstance(reason, str) and reason not in REASONS:
            mistakes.append(Mistake(f"{place}.expect.reason", f"there is no reason {reason[:80]!r}"))
    return mistakes


# Cells of one version share a dictionary, so a few are all there are. Parsing one takes 15 ms.
@lru_cache(maxsize=4)
def _parse_dictionary(text: bytes) -> Dictionary:
    return from_json(text)


def _dangling_references(
    session: Session, tenant_id: TenantId, document: object, *, refuse_absent: bool, keep: bool
) -> list[Mistake]:
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
    # A directory has groups of its own, which are not known before somebody signs in.
    if any(kind == "user-group" for kind, _ in missing) and repository.has_identity_sources(session, tenant_id):
        missing = {(kind, name) for kind, name in missing if kind != "user-group"}
    return [
        Mistake(
            reference.place,
            f"there is no {_KIND_NAMES[reference.kind]} {reference.name!r}; make it first: "
            f"{_CREATE_COMMANDS[reference.kind]}",
        )
        for reference in found
        if (reference.kind, reference.name) in missing
    ]


def _known_in_other_case(
    session: Session, tenant_id: TenantId, found: Sequence[Reference], missing: set[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Those that are compared in any case, and are there in another one."""
    any_case = {(each.kind, each.name) for each in found if each.any_case} & missing
    folded = {kind: repository.folded_names(session, tenant_id, kind) for kind in {kind for kind, _ in any_case}}
    return {(kind, name) for kind, name in any_case if name.casefold() in folded[kind]}
