"""Public files of authorities, which are CRLs (RFC 5280 5) and certificates (RFC 5280 4.2.2.1)."""

from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from uuid import UUID

from fastapi import APIRouter, Request, Response

from nac.certificates.public_lookups import (
    PublishedList,
    require_authority_certificate,
    require_published_list,
    require_revocation_list,
)
from nac.kit.db import AuthorityScope, session_scope

router = APIRouter(tags=["public"])
# RFC 2585 4.2.
_CRL_MEDIA_TYPE = "application/pkix-crl"
# Short, because each revocation publishes a new list.
_CACHE_CONTROL = "public, max-age=300, must-revalidate"
# RFC 2585 4.1.
_CERTIFICATE_MEDIA_TYPE = "application/pkix-cert"


@router.get("/crl/{authority_id}.crl")
@router.head("/crl/{authority_id}.crl", include_in_schema=False)
def get_crl(authority_id: UUID, request: Request) -> Response:
    """Return the CRL in DER. The response is 404 if the authority is unknown or has no published CRL yet."""
    with session_scope(AuthorityScope(authority_id)) as session:
        published = require_published_list(session, authority_id=authority_id)
        if _is_not_modified(request, _build_etag(published), published.this_update):
            return Response(status_code=304, headers=_build_headers(published))
        # The list may have changed since the first query.
        published, der = require_revocation_list(session, authority_id=authority_id)
    return Response(der, media_type=_CRL_MEDIA_TYPE, headers=_build_headers(published))


@router.get("/ca/{authority_id}.cer")
@router.head("/ca/{authority_id}.cer", include_in_schema=False)
def get_authority_certificate(authority_id: UUID) -> Response:
    """Return the certificate in DER. The response is 404 if the authority is unknown."""
    with session_scope(AuthorityScope(authority_id)) as session:
        der = require_authority_certificate(session, authority_id=authority_id)
    # The certificate of an authority id never changes. A new certificate gets a new authority id.
    return Response(
        der, media_type=_CERTIFICATE_MEDIA_TYPE, headers={"Cache-Control": "public, max-age=86400, immutable"}
    )


def _build_etag(published: PublishedList) -> str:
    """ETag from the CRL number, which is unique for each authority."""
    return f'"{published.number}"'


def _build_headers(published: PublishedList) -> dict[str, str]:
    return {
        "Cache-Control": _CACHE_CONTROL,
        "ETag": _build_etag(published),
        "Last-Modified": format_datetime(published.this_update.astimezone(UTC), usegmt=True),
        "Expires": format_datetime(published.next_update.astimezone(UTC), usegmt=True),
    }


def _is_not_modified(request: Request, etag: str, modified: datetime) -> bool:
    """Whether the client has the current list. The tag has precedence over the date (RFC 9110 13.2.2)."""
    tags = request.headers.get("if-none-match")
    if tags is not None:
        return "*" in tags or etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))
    try:
        since = parsedate_to_datetime(request.headers.get("if-modified-since", ""))
    except (ValueError, TypeError, OverflowError):
        return False
    # The dates must be equal. If the clock was ahead, an older list can have a later date.
    return since.tzinfo is not None and modified == since
