"""What a person should know of a NAS: it decides nothing, policy does."""

from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.models import Nas, Site
from nac.nases.signatures import Signing, notes_of_signing
from nac.policies import service as policies
from nac.policies.fitting import note_of_vendor


def notes_of(session: Session, *, nas: Nas, site: Site, signing: Signing | None) -> list[str]:
    told = notes_of_signing(nas, signing, now=utc_now())
    told += [note] if (note := note_of_vendor(nas.vendor)) else []
    for mistake in policies.misfits_at_site(session, site=site, nas=nas):
        told.append(f"devices here will be refused where the policy says so: {mistake}")
    return told
