"""Certificate revocation lists (RFC 5280 5)."""

from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from uuid import UUID

from fastapi import APIRouter, Request, Response

from nac.certificates.public import PublishedList, published_list, revocation_list
from nac.db import AuthorityScope, session_scope

router = APIRouter(tags=["public"])

# RFC 2585 4.2.
_MEDIA_TYPE = "application/pkix-crl"
# Not until the next update: a list is made anew as soon as something is revoked.
_CACHE_CONTROL = "public, max-age=300, must-revalidate"


@router.get("/crl/{authority_id}.crl")
def get_crl(authority_id: UUID, request: Request) -> Response:
    """DER. 404 for an authority that is not here, or that has just been made and publishes within seconds."""
    with session_scope(AuthorityScope(authority_id)) as session:
        published = published_list(session, authority_id=authority_id)
        if _is_not_modified(request, _build_etag(published), published.this_update):
            return Response(status_code=304, headers=_build_headers(published))
        # It may be the next one meanwhile.
        published, der = revocation_list(session, authority_id=authority_id)
    return Response(der, media_type=_MEDIA_TYPE, headers=_build_headers(published))


def _build_etag(published: PublishedList) -> str:
    """Of one authority, no two lists share a number."""
    return f'"{published.number}"'


def _build_headers(published: PublishedList) -> dict[str, str]:
    return {
        "Cache-Control": _CACHE_CONTROL,
        "ETag": _build_etag(published),
        "Last-Modified": format_datetime(published.this_update.astimezone(UTC), usegmt=True),
        "Expires": format_datetime(published.next_update.astimezone(UTC), usegmt=True),
    }


def _is_not_modified(request: Request, etag: str, modified: datetime) -> bool:
    """Whether the client has it already; the tag goes before the date (RFC 9110 13.2.2)."""
    tags = request.headers.get("if-none-match")
    if tags is not None:
        return "*" in tags or etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))
    try:
        since = parsedate_to_datetime(request.headers.get("if-modified-since", ""))
    except (ValueError, TypeError, OverflowError):
        return False
    # Of that very second: a clock that was ahead gave dates to lists which those of today must not wait for.
    return since.tzinfo is not None and modified == since
