"""Routes of `/enrol/<token>`. Only a POST redeems a link, because mail programs open links for previews."""

import base64
import re
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from sqlalchemy.orm import Session

from api.application_state import MAX_LINK_REQUESTS, get_signing, prepare_request_limit
from api.bodies import require_bounded_body
from api.browser_errors import BrowserErrorPages
from api.enrolment_transactions import client_address, hold_secret, require_link_tenant, view_secret
from api.errors import build_retry_headers
from api.forms import read_form
from api.pages import PAGE_HEADERS, render_error_page_without_links, render_page
from api.route_index import RouteIndex
from api.routes import add_routes
from api.thread_limits import limit_routes
from nac.certificates import service as certificates
from nac.certificates.enrolment import certificate_enrolment
from nac.certificates.enrolment.errors import SecretRefused, TooManyGuesses
from nac.certificates.enrolment.service import EnrolmentSecretText, LockedSecret
from nac.certificates.errors import translate_pki_errors
from nac.certificates.service import IssuedCertificate
from nac.certificates.supplicants import apple
from nac.certificates.supplicants import service as supplicants
from nac.kit.clock import utc_now
from nac.kit.errors import AdmitError, InvalidInput
from nac.kit.ids import TenantId
from nac.models import EnrolmentSecret, Tenant
from pki.signing_requests import SigningRequest, read_signing_request

router = APIRouter(tags=["links"])
_MAX_FORM_OCTETS = 64 * 1024
_LIMIT_NAME: Final = "links"
_FORMS = ("p12", "apple", "csr")
_DEAD_LINK_SENTENCE = "The link was already used or has expired. Ask your administrator for a new link."
# Letters and digits that look different from each other. 20 random characters have 100 bits of entropy.
_PASSWORD_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # noqa: S105 -- no password
FormBody = Annotated[bytes, Depends(require_bounded_body(_MAX_FORM_OCTETS))]


@router.get("/enrol/{token}")
def show_link(token: str, request: Request) -> Response:
    try:
        found, tenant_id = _parse_token(request, token)
        with view_secret(request, tenant_id=tenant_id, kind="link", name=found.public_id, secret=found.secret) as (
            session,
            secret,
        ):
            return render_offer(secret, organisation=_get_organisation(session, tenant_id))
    except (SecretRefused, TooManyGuesses) as exc:
        return _render_link_error(exc)


@router.post("/enrol/{token}")
def redeem_link(token: str, request: Request, body: FormBody) -> Response:
    try:
        found, tenant_id = _parse_token(request, token)
        named = {"name": found.public_id, "secret": found.secret}
        try:
            form = _require_form(read_form(request.headers.get("content-type", ""), body))
            with hold_secret(request, tenant_id=tenant_id, kind="link", **named) as (session, held):
                reply = _issue_certificate(session, request, held, form)
        except AdmitError as exc:
            if isinstance(exc, SecretRefused | TooManyGuesses) or exc.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            with view_secret(request, tenant_id=tenant_id, kind="link", **named) as (session, secret):
                organisation = _get_organisation(session, tenant_id)
                return render_offer(secret, organisation=organisation, wrong=str(exc), status=HTTPStatus.BAD_REQUEST)
    except (SecretRefused, TooManyGuesses) as exc:
        return _render_link_error(exc)
    # Reply after the commit: the certificate and the use of the link are stored.
    return reply


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


def _parse_token(request: Request, token: str) -> tuple[EnrolmentSecretText, TenantId]:
    found = EnrolmentSecretText.parse(token)
    tenant_id = require_link_tenant(request, found)
    assert found is not None
    return found, tenant_id


def _render_link_error(exc: SecretRefused | TooManyGuesses) -> Response:
    if isinstance(exc, TooManyGuesses):
        return render_link_error(exc.status, str(exc), headers=build_retry_headers(exc))
    return render_link_error(HTTPStatus.NOT_FOUND, _DEAD_LINK_SENTENCE)


def _require_form(form: dict[str, bytes]) -> dict[str, bytes]:
    if form.get("form", b"").decode(errors="replace") not in _FORMS:
        raise InvalidInput("No format is selected.", place="form", remedy="Select a format.")
    return form


def _issue_certificate(session: Session, request: Request, held: LockedSecret, form: dict[str, bytes]) -> Response:
    now, wanted = utc_now(), form["form"].decode()
    asked = _read_signing_request(form) if wanted == "csr" else None
    before = asked and certificate_enrolment.find_repeated_enrolment(session, secret=held.row, request=asked, now=now)
    issued = before or certificate_enrolment.enrol(
        session,
        actor=f"link:{client_address(request)}",
        secret=held.take(now),
        request=asked,
        signing=get_signing(request),
        now=now,
    )
    stem = re.sub(r"[^A-Za-z0-9._@-]+", "-", issued.common_name).strip("-.") or "certificate"
    if wanted == "csr":
        chain = certificates.build_pem_files(issued)["cert"]
        return build_download(chain, media_type="application/x-pem-file", file_name=f"{stem}.pem")
    password = _generate_password()
    if wanted == "apple":
        profile = _build_mobileconfig(session, held.row, issued, password)
        return build_download(profile, media_type="application/x-apple-aspen-config", file_name=f"{stem}.mobileconfig")
    bundle = certificates.build_pkcs12_file(issued, password=password, legacy="legacy" in form)
    return render_pkcs12_download(bundle, file_name=f"{stem}.p12", password=password)


def _read_signing_request(form: dict[str, bytes]) -> SigningRequest:
    with translate_pki_errors():
        return read_signing_request(form.get("file", b"").strip(b"\r\n") or form.get("text", b"").strip())


def _build_mobileconfig(session: Session, secret: EnrolmentSecret, issued: IssuedCertificate, password: str) -> bytes:
    network = supplicants.describe_network(session, tenant_id=secret.tenant_id, now=utc_now(), ssid=secret.ssid)
    # Many releases of iOS and macOS report a wrong password if the file uses AES. AES would not help, because the
    # profile also contains the password.
    bundle = certificates.build_pkcs12_file(issued, password=password, legacy=True)
    return apple.build_mobileconfig(
        network, identity=bundle, password=password, name=issued.common_name, connect=bool(secret.ssid)
    )


def _generate_password() -> str:
    return "-".join("".join(secrets.choice(_PASSWORD_LETTERS) for _ in range(5)) for _ in range(4))


def _get_organisation(session: Session, tenant_id: TenantId) -> str:
    return session.get_one(Tenant, tenant_id).name


_PAGE_ROUTES: Final = tuple(
    limit_routes(
        router.routes,
        whose=_LIMIT_NAME,
        refused=render_error_page_without_links,
        most_octets=_MAX_FORM_OCTETS,
    )
)


def add_link_routes(app: FastAPI) -> None:
    """Add the link pages to an application that also serves devices."""
    add_routes(app, _PAGE_ROUTES)
    prepare_request_limit(app, MAX_LINK_REQUESTS, whose=_LIMIT_NAME)


def add_browser_errors(app: FastAPI) -> None:
    """Show errors as pages to browsers, without a link to a home page."""
    app.add_middleware(BrowserErrorPages, pages=RouteIndex(()), home=())
