"""Which policies name a group or a site: what they name must not go, or a rule would silently cease to match."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from nac.engine import references
from nac.engine.references import ReferenceKind
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


def referring_versions(
    session: Session, *, tenant_id: TenantId, kind: ReferenceKind, name: str
) -> tuple[ReferringVersion, ...]:
    """Published versions and drafts with a condition that names it; superseded ones are checked at their rollback."""
    return tuple(
        ReferringVersion(slug, version.number, version.status)
        for slug, version in repository.standing_versions(session, tenant_id)
        if any(found.kind == kind and found.name == name for found in references(version.document))
    )


def require_unreferenced(
    session: Session, *, tenant_id: TenantId, kind: ReferenceKind, name: str, place: str, also: str = ""
) -> None:
    """Raises InUse that lists every policy; `also` is a sentence on what else the removal would touch.

    The caller has locked the row, so that no policy that names it is saved meanwhile (`repository.known_names`).
    """
    if found := referring_versions(session, tenant_id=tenant_id, kind=kind, name=name):
        raise InUse(
            f"Policies name {name!r}: {', '.join(map(str, found))}.{also and ' ' + also}",
            place=place,
            remedy="Take it out of them first: ./admit policy show, save and, where it is published, publish.",
        )
