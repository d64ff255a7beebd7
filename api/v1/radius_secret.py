"""RADIUS address, ports and secret for the configuration of NASes."""

from typing import Annotated

from fastapi import Depends
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.application_state import get_settings
from api.routes import NounRouter
from api.v1.inputs import Input, body_references
from nac.kit.permissions import Effect, Permission
from nac.onboarding.snippets import service as snippets
from nac.tenancy.cells import service as cells

router = NounRouter(prefix="/tenants/{tenant}", tag="secret", description="RADIUS shared secret of a tenant.")

Reveals = Annotated[Access, Depends(ChangesTenant(Permission.SECRET_REVEAL, Effect.SECRETS))]


class RadiusSecretRequest(Input):
    nas: str = Field(
        "", max_length=253, description='Name of a NAS that has its own secret; "" for the tenant\'s secret.'
    )
    snippet: str = Field(
        "",
        max_length=63,
        examples=["cisco-iosxe-ibns2"],
        description='Id of a configuration snippet to return with the secret; "" for no snippet.',
    )
    site: str = Field(
        "",
        max_length=63,
        description='Slug of the site that the configuration snippet is for; "" for the default site.',
    )
    next: bool = Field(
        False,
        description="Whether to return the new secret of a secret rotation (true) or the current secret (false).",
    )


class RadiusServer(BaseModel):
    """RADIUS address, ports and secret of a tenant."""

    address: str = Field(description="IP address of the RADIUS server.")
    auth_port: int = Field(description="UDP port of the RADIUS server for authentication.")
    acct_port: int = Field(description="UDP port of the RADIUS server for accounting.")
    secret: str = Field(description="RADIUS shared secret.")
    text: str = Field(description='Configuration snippet with the secret; "" if you requested no snippet.')


@router.post("/radius-secret/reveal", operation_id="revealRadiusSecret")
def reveal_secret(access: Reveals, body: RadiusSecretRequest) -> RadiusServer:
    """Get the RADIUS shared secret, and optionally a configuration snippet.

    The audit log records who viewed the secret.
    """
    usual = get_settings(access.asked.request).radius_host
    with access.change() as change, body_references():
        secret = snippets.reveal_secret(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            unseal=access.sealer.open,
            nas=body.nas,
            following=body.next,
        )
        text = ""
        if body.snippet:
            text = snippets.render_snippet(
                change.session,
                tenant_id=access.tenant_id,
                name=body.snippet,
                usual_host=usual,
                site=body.site,
                nas=body.nas,
                secret=secret,
            )
        slot = cells.require_slot(change.session, tenant_id=access.tenant_id)
        server = RadiusServer(
            address=cells.advertised_address(change.session, slot=slot, usual=usual),
            auth_port=slot.auth_port,
            acct_port=slot.acct_port,
            secret=secret,
            text=text,
        )
        return change.answer(server)
