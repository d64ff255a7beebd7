"""What a person types into a switch."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.state import settings_of
from api.v1.inputs import Input, body_references
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.cells import service as cells
from nac.snippets import service as snippets

router = APIRouter(prefix="/tenants/{tenant}", tags=["secret"])

Reveals = Annotated[Access, Depends(ChangesTenant(Permission.SECRET_REVEAL, Effect.SECRETS))]


class RadiusSecretRequest(Input):
    nas: str = Field("", max_length=253, description='Name of a NAS with a secret of its own; "": the tenant\'s.')
    snippet: str = Field(
        "",
        max_length=63,
        examples=["cisco-iosxe-ibns2"],
        description='Id of a configuration snippet that is to be given with the secret in it; "" for none.',
    )
    site: str = Field(
        "", max_length=63, description='Slug of the site that the configuration is for; "": the default one.'
    )
    next: bool = Field(False, description="What to give as `after` for the next page; null where there is none.")


class RadiusServer(BaseModel):
    """Where the tenant's NASes send to, and what they share with it."""

    address: str = Field(description="IP address.")
    auth_port: int = Field(description="UDP port for authentication.")
    acct_port: int = Field(description="UDP port for accounting.")
    secret: str = Field(description="The shared secret.")
    text: str = Field(description='The configuration, with the secret in it; "" where no snippet was asked for.')


@router.post("/radius-secret/reveal", operation_id="revealRadiusSecret")
def reveal_secret(access: Reveals, wanted: RadiusSecretRequest) -> RadiusServer:
    """With the shared secret, and a snippet with it where one is named. Who was shown it is in the audit log."""
    usual = settings_of(access.asked.request).radius_host
    with access.change() as change, body_references():
        secret = snippets.reveal_secret(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            unseal=access.sealer.open,
            nas=wanted.nas,
            following=wanted.next,
        )
        text = ""
        if wanted.snippet:
            text = snippets.render_snippet(
                change.session,
                tenant_id=access.tenant_id,
                name=wanted.snippet,
                usual_host=usual,
                site=wanted.site,
                nas=wanted.nas,
                secret=secret,
            )
        slot = cells.require_slot(change.session, tenant_id=access.tenant_id)
        server = RadiusServer(
            address=cells.told_address(change.session, slot=slot, usual=usual),
            auth_port=slot.auth_port,
            acct_port=slot.acct_port,
            secret=secret,
            text=text,
        )
        return change.answer(server)
