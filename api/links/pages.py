"""Pages and downloads of an enrolment link."""

import base64
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import Response

from api.pages import PAGE_HEADERS, render_page
from nac.models import EnrolmentSecret


def render_offer(
    secret: EnrolmentSecret, *, organisation: str, wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    return render_page(
        "enrolment-link/offer.html",
        status=status,
        name=secret.common_name or "",
        organisation=organisation,
        uses_left=secret.most_uses - secret.uses,
        expires_at=secret.expires_at,
        ssid=secret.ssid,
        wrong=wrong,
    )


def render_pkcs12_download(content: bytes, *, file_name: str, password: str) -> Response:
    return render_page(
        "enrolment-link/pkcs12.html",
        content=base64.b64encode(content).decode(),
        file_name=file_name,
        password=password,
    )


def render_link_error(status: int, sentence: str, *, headers: Mapping[str, str] | None = None) -> Response:
    return render_page(
        "message.html", status=status, headers=headers, title="This link does not work", sentence=sentence
    )


def build_download(content: bytes, *, media_type: str, file_name: str) -> Response:
    disposition = f'attachment; filename="{file_name}"'
    return Response(content, media_type=media_type, headers={**PAGE_HEADERS, "Content-Disposition": disposition})
