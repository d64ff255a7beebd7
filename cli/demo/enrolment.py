"""Settings for EST and SCEP at a demo tenant. Each run creates new secrets, because a secret works once."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from api.enrolment.server_certificate import authority_path
from cli.command_context import CommandContext
from cli.demo.files import FileWriter, read_text
from nac.certificates.enrolment import service as enrolment
from nac.certificates.scep import service as scep
from nac.kit.clock import utc_now

_SCEP_LIFE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class EstAccess:
    url: str
    user: str
    secret: str
    # File with the authority of the enrolment server; None unless Admit created the server's certificate.
    ca: Path | None


def create_est_access(domain: CommandContext, slug: str, folder: Path) -> EstAccess:
    with domain.tenant(slug) as (session, tenant_id):
        made = enrolment.create_secret(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            kind="est",
            profile="eap-client-device",
            now=utc_now(),
            any_name=True,
        )
    url = f"{domain.settings.enrolment_url}/.well-known/est/{slug}"
    return EstAccess(url, made.token.public_id, made.token.secret, _server_ca(domain, folder))


def _server_ca(domain: CommandContext, folder: Path) -> Path | None:
    """Copy the certificate of the enrolment server's authority to a file that the user of the demo can read."""
    pem = read_text(authority_path(domain.settings.enrolment_certificate_file.parent))
    if not pem:
        return None
    writer, copy = FileWriter(), folder / "est-ca.pem"
    writer.add(copy, pem)
    writer.write()
    return copy


def create_scep_access(domain: CommandContext, slug: str) -> dict[str, str]:
    """Create SCEP settings with a new challenge for one device with any name."""
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
            life=_SCEP_LIFE,
        )
    return {"scep_url": scep.build_scep_url(domain.settings.public_url, slug), "scep_challenge": made.token.reveal()}
