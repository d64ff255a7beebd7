"""Managed service providers. In PlatformScope."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.errors import AlreadyExists, NotFound
from nac.models import Msp
from nac.msps import repository
from nac.validation import require_name, require_slug


class MspNotFound(NotFound):
    """There is no such MSP."""


def create_msp(session: Session, *, actor: str, slug: str, name: str = "") -> Msp:
    require_slug(slug)
    if repository.get_by_slug(session, slug):
        raise AlreadyExists(f"There is an MSP {slug!r} already.", place="slug")
    msp = Msp(slug=slug, name=require_name(name or slug))
    session.add(msp)
    session.flush()
    audit.append(session, actor=actor, action="msp.create", target=slug, msp_id=msp.id, after={"name": msp.name})
    return msp


def require_by_slug(session: Session, *, slug: str) -> Msp:
    msp = repository.get_by_slug(session, slug)
    if msp is None:
        raise MspNotFound(f"There is no MSP {slug!r}.", place="msp", remedy="They are listed by: ./admit msp list")
    return msp


def list_msps(session: Session) -> Sequence[Msp]:
    return repository.list_all(session)
