"""Certificates of authorities, for clients that received an incomplete chain (RFC 5280 4.2.2.1, caIssuers)."""

from uuid import UUID

from fastapi import APIRouter, Response

from nac.certificates.public_lookups import require_authority_certificate
from nac.kit.db import AuthorityScope, session_scope

router = APIRouter(tags=["public"])

# RFC 2585 4.1.
_MEDIA_TYPE = "application/pkix-cert"


@router.get("/ca/{authority_id}.cer")
@router.head("/ca/{authority_id}.cer", include_in_schema=False)
def get_authority_certificate(authority_id: UUID) -> Response:
    """The certificate in DER, or 404 for an unknown authority."""
    with session_scope(AuthorityScope(authority_id)) as session:
        der = require_authority_certificate(session, authority_id=authority_id)
    # An authority's certificate never changes; a renewed one has another id.
    return Response(der, media_type=_MEDIA_TYPE, headers={"Cache-Control": "public, max-age=86400, immutable"})
