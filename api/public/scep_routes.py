"""SCEP (RFC 8894): devices request certificates with challenges, and renew certificates."""

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from starlette.background import BackgroundTask

from api.bodies import require_bounded_body
from api.enrolment_transactions import require_tenant_by_slug
from api.public.scep_flow import ScepFlow
from nac.certificates.scep.service import ScepMessageDamaged
from pki.cms import MAX_MESSAGE_BYTES
from pki.scep import CAPABILITIES

router = APIRouter(tags=["scep"])

_MESSAGE_MEDIA_TYPE = "application/x-pki-message"
_AUTHORITIES_MEDIA_TYPE = "application/x-x509-ca-ra-cert"
# Old clients append `pkiclient.exe` to the URL.
_PATHS = ("/scep/{slug}", "/scep/{slug}/pkiclient.exe")
_NO_STORE = {"Cache-Control": "no-store"}


def require_scep_flow(request: Request, slug: str) -> ScepFlow:
    """SCEP service of the tenant; 404 if the tenant does not exist or is not active."""
    return ScepFlow(require_tenant_by_slug(slug), slug, request)


TenantScepFlow = Annotated[ScepFlow, Depends(require_scep_flow)]
MessageBody = Annotated[bytes, Depends(require_bounded_body(MAX_MESSAGE_BYTES))]


@router.get(_PATHS[0])
@router.get(_PATHS[1])
def get_operation(tenant: TenantScepFlow, operation: str = "", message: str = "") -> Response:
    match operation:
        case "GetCACaps":
            return Response("\n".join(CAPABILITIES) + "\n", media_type="text/plain", headers=_NO_STORE)
        case "GetCACert":
            return Response(tenant.authorities(), media_type=_AUTHORITIES_MEDIA_TYPE, headers=_NO_STORE)
        case "PKIOperation":
            return _run_operation(tenant, _decode_message(message))
        case _:
            raise ScepMessageDamaged(
                f"Unknown operation {operation[:40]!r}.",
                place="operation",
                remedy="Use one of: GetCACaps, GetCACert, PKIOperation.",
            )


@router.post(_PATHS[0])
@router.post(_PATHS[1])
def post_operation(tenant: TenantScepFlow, body: MessageBody, operation: str = "PKIOperation") -> Response:
    if operation != "PKIOperation":
        raise ScepMessageDamaged(
            "POST supports only PKIOperation.", place="operation", remedy="Send other operations with GET."
        )
    return _run_operation(tenant, body)


def _run_operation(tenant: ScepFlow, message: bytes) -> Response:
    answer = tenant.run_pki_operation(message)
    background = BackgroundTask(answer.afterwards) if answer.afterwards else None
    return Response(answer.message, media_type=_MESSAGE_MEDIA_TYPE, headers=_NO_STORE, background=background)


def _decode_message(message: str) -> bytes:
    """Decode the message (RFC 8894 4.1). An unescaped plus sign arrives as a space."""
    if len(message) > 4 * MAX_MESSAGE_BYTES // 3 + 4:
        raise ScepMessageDamaged("The message is too long.", place="message", remedy="Send the message with POST.")
    try:
        return base64.b64decode("".join(message.replace(" ", "+").split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ScepMessageDamaged("The message is not base64.", place="message") from exc
