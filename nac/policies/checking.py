"""Whether a document may become a policy of a tenant: its form, its replies, the names it refers to, in one answer."""

from collections.abc import Sequence
from functools import lru_cache

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
from nac.engine.references import ReferenceKind
from nac.errors import Conflict, InvalidInput
from nac.ids import TenantId
from nac.policies import repository

_WHAT: dict[ReferenceKind, str] = {
    "endpoint-group": "group of endpoints",
    "user-group": "group of users",
    "site": "site",
}


class InvalidPolicy(InvalidInput):
    """The policy has mistakes; nothing was stored."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        """What the engine reports as PolicyErrors, and names that do not exist: every mistake with its place."""
        super().__init__("; ".join(str(mistake) for mistake in mistakes))
        self.mistakes = tuple(mistakes)


class DictionaryMissing(Conflict):
    """The cell of this tenant has not said yet what its radiusd's dictionaries are."""


def check_document(
    session: Session, *, tenant_id: TenantId, document: object, refuse_unreachable: bool = True
) -> Policy:
    """The compiled policy. Raises InvalidPolicy with every mistake and its place, or DictionaryMissing."""
    replies = require_dictionary(session, tenant_id=tenant_id)
    if unreadable := check_storable(document):
        raise InvalidPolicy(unreadable)
    policy = Policy()
    mistakes = _dangling(session, tenant_id, document)
    try:
        policy = compile_policy(document, replies=replies, refuse_unreachable=refuse_unreachable)
    except PolicyErrors as errors:
        mistakes = [*errors.mistakes, *mistakes]
    if mistakes:
        raise InvalidPolicy(mistakes)
    return policy


def check_fallback(session: Session, *, tenant_id: TenantId, document: object) -> Outcome:
    """The outcome that a site puts in place of its policy's fallback. Raises InvalidPolicy or DictionaryMissing."""
    try:
        return compile_outcome(document, replies=require_dictionary(session, tenant_id=tenant_id))
    except PolicyErrors as errors:
        raise InvalidPolicy(errors.mistakes) from errors


def require_dictionary(session: Session, *, tenant_id: TenantId) -> Dictionary:
    """What the radiusd of the tenant's cell takes in replies. Raises DictionaryMissing."""
    text = cells.load_dictionary(session, tenant_id=tenant_id)
    if text is None:
        raise DictionaryMissing(
            "The cell of this tenant has not uploaded the dictionaries of its radiusd, so replies cannot be checked.",
            remedy="Start the cell's agent; it uploads them when it starts.",
        )
    return _parsed(text)


# Cells of one version share a dictionary, so a few are all there are. Parsing one takes 15 ms.
@lru_cache(maxsize=4)
def _parsed(text: bytes) -> Dictionary:
    return from_json(text)


def _dangling(session: Session, tenant_id: TenantId, document: object) -> list[Mistake]:
    found = [reference for reference in references(document) if reference.kind in _WHAT]
    missing: set[tuple[str, str]] = set()
    for kind in _WHAT:
        names = frozenset(reference.name for reference in found if reference.kind == kind)
        if names:
            known = repository.known_names(session, tenant_id, kind, names)
            missing |= {(kind, name) for name in names - known}
    return [
        Mistake(reference.place, f"there is no {_WHAT[reference.kind]} {reference.name!r}; make it first")
        for reference in found
        if (reference.kind, reference.name) in missing
    ]
