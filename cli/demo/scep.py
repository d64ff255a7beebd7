"""What a SCEP client needs in order to enrol with a demo tenant."""

from datetime import timedelta

from cli.domain import Domain
from nac.clock import utc_now
from nac.enrolment import service as enrolment
from nac.scep import service as scep

_LIFE = timedelta(days=1)


def scep_of(domain: Domain, slug: str) -> dict[str, str]:
    """A challenge that nobody has used: a new one at each run, for one device of any name."""
    with domain.tenant(slug) as (session, tenant_id):
        made = enrolment.create_secret(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            kind="scep",
            profile="eap-client-device",
            now=utc_now(),
            owner="Demo",
            any_name=True,
            life=_LIFE,
        )
    return {"scep_url": scep.build_scep_url(domain.settings.public_url, slug), "scep_challenge": made.token.reveal()}
