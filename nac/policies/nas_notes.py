"""Notes about a NAS for administrators. The notes do not affect decisions."""

from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.models import Nas, Site
from nac.policies import service as policies
from nac.policies.nas_support import unknown_vendor_note
from nac.tenancy.nases.signatures import SigningHistory, list_signing_notes


def list_notes(session: Session, *, nas: Nas, site: Site, signing: SigningHistory | None) -> list[str]:
    notes = list_signing_notes(nas, signing, now=utc_now())
    notes += [note] if (note := unknown_vendor_note(nas.vendor)) else []
    for mistake in policies.find_unsupported_at_site(session, site=site, nas=nas):
        notes.append(f"devices at this site will be rejected in some cases of the policy: {mistake}")
    return notes
