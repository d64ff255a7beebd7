"""Values for enrolment at a demo tenant. The secret is new at each run, because it works once."""

from dataclasses import dataclass
from pathlib import Path

from api.enrolment.server_certificate import authority_path
from cli.command_context import CommandContext
from cli.demo.files import FileWriter, read_text
from nac.certificates.enrolment import service as enrolment
from nac.kit.clock import utc_now


@dataclass(frozen=True, slots=True)
class EstAccess:
    url: str
    user: str
    secret: str
    # Authority of the server; None unless Admit created its certificate.
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
    """Copy that the user of the demo can read."""
    pem = read_text(authority_path(domain.settings.enrolment_certificate_file.parent))
    if not pem:
        return None
    writer, copy = FileWriter(), folder / "est-ca.pem"
    writer.add(copy, pem)
    writer.write()
    return copy
