"""What a person should know of a NAS: it decides nothing, policy does."""

from sqlalchemy.orm import Session

from nac.models import Nas, Site
from nac.policies import service as policies
from nac.policies.fitting import note_of_vendor


def notes_of(session: Session, *, nas: Nas, site: Site) -> list[str]:
    told = [note] if (note := note_of_vendor(nas.vendor)) else []
    for mistake in policies.misfits_at_site(session, site=site, nas=nas):
        told.append(f"devices here will be refused where the policy says so: {mistake}")
    return told
