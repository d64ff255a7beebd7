"""SCEP (RFC 8894): devices ask for certificates with challenges, and renew them by themselves."""

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from starlette.background import BackgroundTask

from api.bodies import bounded_body
from api.head import get_only
from api.public.scep_desk import Desk
from api.redeeming import tenant_by_slug
from nac.scep.errors import ScepMessageDamaged
from pki.cms import MAX_MESSAGE_BYTES
from pki.scep import CAPABILITIES

router = APIRouter(tags=["scep"])

_MESSAGE = "application/x-pki-message"
_AUTHORITIES = "application/x-x509-ca-ra-cert"
# What old clients put behind the address that they are given.
_PATHS = ("/scep/{slug}", "/scep/{slug}/pkiclient.exe")
_UNCACHED = {"Cache-Control": "no-store"}


def desk(request: Request, slug: str) -> Desk:
    """404 for a tenant that is not here or not active."""
    return Desk(tenant_by_slug(slug), slug, request)


TenantDesk = Annotated[Desk, Depends(desk)]
Body = Annotated[bytes, Depends(bounded_body(MAX_MESSAGE_BYTES))]


@router.get(_PATHS[0])
@router.get(_PATHS[1])
@get_only
def ask(tenant: TenantDesk, operation: str = "", message: str = "") -> Response:
    match operation:
        case "GetCACaps":
            return Response("\n".join(CAPABILITIES) + "\n", media_type="text/plain", headers=_UNCACHED)
        case "GetCACert":
            return Response(tenant.authorities(), media_type=_AUTHORITIES, headers=_UNCACHED)
        case "PKIOperation":
            return _answer(tenant, _decoded(message))
        case _:
            raise ScepMessageDamaged(
                f"There is no operation {operation[:40]!r} here.",
                place="operation",
                remedy="Use GetCACaps, GetCACert or PKIOperation.",
            )


@router.post(_PATHS[0])
@router.post(_PATHS[1])
def submit(tenant: TenantDesk, body: Body, operation: str = "PKIOperation") -> Response:
    if operation != "PKIOperation":
        raise ScepMessageDamaged("Only PKIOperation is posted.", place="operation")
    return _answer(tenant, body)


def _answer(tenant: Desk, message: bytes) -> Response:
    answer = tenant.pki_operation(message)
    background = BackgroundTask(answer.afterwards) if answer.afterwards else None
    return Response(answer.message, media_type=_MESSAGE, headers=_UNCACHED, background=background)


def _decoded(message: str) -> bytes:
    """RFC 8894 4.1; a plus sign that the client did not escape arrives as a blank."""
    if len(message) > 4 * MAX_MESSAGE_BYTES // 3 + 4:
        raise ScepMessageDamaged("The message is too long.", place="message", remedy="Use POST.")
    try:
        return base64.b64decode("".join(message.replace(" ", "+").split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ScepMessageDamaged("The message is not base64.", place="message") from exc
