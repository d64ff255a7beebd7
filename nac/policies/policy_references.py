"""Which policies name a group or a site: what they name must not go, or a rule would silently cease to match."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from nac.engine import references
from nac.engine.references import ReferenceKind, tells_apart
from nac.errors import InUse
from nac.ids import TenantId
from nac.policies import repository


@dataclass(frozen=True, slots=True)
class ReferringVersion:
    slug: str
    number: int
    # published | draft
    status: str

    def __str__(self) -> str:
        return f"{self.slug} version {self.number} ({self.status})"


def list_referring_versions(
    session: Session, *, tenant_id: TenantId, kind: ReferenceKind, name: str
) -> tuple[ReferringVersion, ...]:
    """Published versions and drafts with a condition that names it; superseded ones are checked at their rollback."""
    return _filter_current_versions(session, tenant_id, lambda document: _refers_to(document, kind, name))


def list_referenced_names(session: Session, *, tenant_id: TenantId, kind: ReferenceKind) -> frozenset[str]:
    """By policies in force and drafts, as a whole."""
    rows = repository.published_and_draft_versions(session, tenant_id)
    return frozenset(each.name for _, version in rows for each in references(version.document) if each.kind == kind)


def require_renamable(
    session: Session, *, tenant_id: TenantId, kind: ReferenceKind, name: str, new_name: str, place: str
) -> None:
    """Raises InUse as `require_unreferenced`, and where a condition on a part of such names would decide otherwise."""
    found = _filter_current_versions(
        session,
        tenant_id,
        lambda document: _refers_to(document, kind, name) or tells_apart(document, kind, name, new_name),
    )
    if found:
        raise InUse(
            f"Policies go by the name {name!r}, or tell {new_name!r} from it: {_join_versions(found)}.",
            place=place,
            remedy="Take it out of them first, or choose a name of which they decide the same.",
        )


def require_unreferenced(
    session: Session, *, tenant_id: TenantId, kind: ReferenceKind, name: str, place: str, also: str = ""
) -> None:
    """Raises InUse that lists every policy; `also` is a sentence on what else the removal would touch.

    The caller has locked the row, so that no policy that names it is saved meanwhile (`repository.known_names`).
    """
    if found := list_referring_versions(session, tenant_id=tenant_id, kind=kind, name=name):
        raise InUse(
            f"Policies name {name!r}: {_join_versions(found)}.{also and ' ' + also}",
            place=place,
            remedy="Take it out of them first: ./admit policy show, save and, where it is published, publish.",
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
        for slug, version in repository.published_and_draft_versions(session, tenant_id)
        if refers(version.document)
    )
