"""What a person types into a switch."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from api.access import Access, ChangesTenant
from nac.accounts.permissions import Permission
from nac.cells import service as cells

router = APIRouter(prefix="/tenants/{tenant}", tags=["tenants", "secret"])

Reveals = Annotated[Access, Depends(ChangesTenant(Permission.SECRET_REVEAL))]


class RadiusServer(BaseModel):
    """Where the tenant's NASes send to, and what they share with it."""

    address: str
    auth_port: int
    acct_port: int
    secret: str


@router.post("/radius-secret/reveal", operation_id="revealRadiusSecret")
def reveal_secret(access: Reveals) -> RadiusServer:
    """With the shared secret; who was shown it is in the audit log."""
    with access.change() as change:
        slot, secret = cells.reveal_secret(
            change.session, actor=access.actor, tenant_id=access.tenant_id, unseal=access.signing.sealer.open
        )
        address = access.asked.request.app.state.settings.listen_address
        server = RadiusServer(address=address, auth_port=slot.auth_port, acct_port=slot.acct_port, secret=secret)
        return change.answer(server)
