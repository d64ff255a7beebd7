"""Values for SCEP enrolment at a demo tenant."""

from datetime import timedelta

from cli.command_context import CommandContext
from nac.certificates.enrolment import service as enrolment
from nac.certificates.scep import service as scep
from nac.kit.clock import utc_now

_LIFE = timedelta(days=1)


def create_scep_access(domain: CommandContext, slug: str) -> dict[str, str]:
    """SCEP values with an unused challenge for one device with any name, new at each run."""
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
