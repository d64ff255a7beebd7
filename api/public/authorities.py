"""Certificates of authorities, for those that were shown a chain without them (RFC 5280 4.2.2.1, caIssuers)."""

from uuid import UUID

from fastapi import APIRouter, Response

from nac.certificates.public import authority_certificate
from nac.db import AuthorityScope, session_scope

router = APIRouter(tags=["public"])

# RFC 2585 4.1.
_MEDIA_TYPE = "application/pkix-cert"


@router.get("/ca/{authority_id}.cer")
def get_authority_certificate(authority_id: UUID) -> Response:
    """DER. 404 for an authority that is not here."""
    with session_scope(AuthorityScope(authority_id)) as session:
        der = authority_certificate(session, authority_id=authority_id)
    # An authority's certificate never changes; a renewed one has another id.
    return Response(der, media_type=_MEDIA_TYPE, headers={"Cache-Control": "public, max-age=86400, immutable"})
