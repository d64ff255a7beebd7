"""`/enrol/<token>`: to look at it takes nothing (mail programs do, to show a preview); to post its form redeems it."""

import re
import secrets
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy.orm import Session

from api.bodies import bounded_body
from api.errors import retry_headers
from api.forms import read_form
from api.links import pages
from api.redeeming import holding, looking, source, tenant_of_link
from api.state import signing_of
from nac.certificates import service as certificates
from nac.certificates.errors import refusals
from nac.certificates.service import IssuedCertificate
from nac.clock import utc_now
from nac.enrolment import enrolling
from nac.enrolment.errors import SecretRefused, TooManyGuesses
from nac.enrolment.service import Held
from nac.enrolment.tokens import Token
from nac.errors import AdmitError, InvalidInput
from nac.ids import TenantId
from nac.models import EnrolmentSecret, Tenant
from nac.supplicants import apple
from nac.supplicants import service as supplicants
from pki.signing_requests import SigningRequest, read_signing_request

router = APIRouter(tags=["links"])

MOST_FORM_OCTETS = 64 * 1024
_FORMS = ("p12", "apple", "csr")
_GONE = "It may have been used already, or its time is over. Ask your administrator for a new one."
# Letters and digits that are not taken for one another; 100 bits.
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"

Body = Annotated[bytes, Depends(bounded_body(MOST_FORM_OCTETS))]


@router.get("/enrol/{token}")
def show(token: str, request: Request) -> Response:
    try:
        found, tenant_id = _parsed(request, token)
        with looking(request, tenant_id=tenant_id, kind="link", name=found.public_id, secret=found.secret) as (
            session,
            secret,
        ):
            return pages.offer(secret, organisation=_organisation(session, tenant_id))
    except (SecretRefused, TooManyGuesses) as exc:
        return _no_link(exc)


@router.post("/enrol/{token}")
def redeem(token: str, request: Request, body: Body) -> Response:
    try:
        found, tenant_id = _parsed(request, token)
        named = {"name": found.public_id, "secret": found.secret}
        try:
            form = _require_form(read_form(request.headers.get("content-type", ""), body))
            with holding(request, tenant_id=tenant_id, kind="link", **named) as (session, held):
                reply = _hand_out(session, request, held, form)
        except AdmitError as exc:
            if isinstance(exc, SecretRefused | TooManyGuesses) or exc.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            with looking(request, tenant_id=tenant_id, kind="link", **named) as (session, secret):
                organisation = _organisation(session, tenant_id)
                return pages.offer(secret, organisation=organisation, wrong=str(exc), status=HTTPStatus.BAD_REQUEST)
    except (SecretRefused, TooManyGuesses) as exc:
        return _no_link(exc)
    # After the commit: the certificate and the use of the link are stored.
    return reply


def _parsed(request: Request, token: str) -> tuple[Token, TenantId]:
    found = Token.parse(token)
    tenant_id = tenant_of_link(request, found)
    assert found is not None
    return found, tenant_id


def _no_link(exc: SecretRefused | TooManyGuesses) -> Response:
    if isinstance(exc, TooManyGuesses):
        return pages.refused(exc.status, str(exc), headers=retry_headers(exc))
    return pages.refused(HTTPStatus.NOT_FOUND, _GONE)


def _require_form(form: dict[str, bytes]) -> dict[str, bytes]:
    if form.get("form", b"").decode(errors="replace") not in _FORMS:
        raise InvalidInput("The form does not say what is wanted.", place="form", remedy="Choose one.")
    return form


def _hand_out(session: Session, request: Request, held: Held, form: dict[str, bytes]) -> Response:
    now, wanted = utc_now(), form["form"].decode()
    asked = _asked(form) if wanted == "csr" else None
    before = asked and enrolling.enrolled_before(session, secret=held.row, request=asked, now=now)
    issued = before or enrolling.enrol(
        session,
        actor=f"link:{source(request)}",
        secret=held.take(now),
        request=asked,
        signing=signing_of(request),
        now=now,
    )
    stem = re.sub(r"[^A-Za-z0-9._@-]+", "-", issued.common_name).strip("-.") or "certificate"
    if wanted == "csr":
        chain = certificates.pem_files(issued)["cert"]
        return pages.attached(chain, media_type="application/x-pem-file", file_name=f"{stem}.pem")
    password = _password()
    if wanted == "apple":
        profile = _apple(session, held.row, issued, password)
        return pages.attached(profile, media_type="application/x-apple-aspen-config", file_name=f"{stem}.mobileconfig")
    bundle = certificates.pkcs12_file(issued, password=password, legacy="legacy" in form)
    return pages.handed(bundle, file_name=f"{stem}.p12", password=password)


def _asked(form: dict[str, bytes]) -> SigningRequest:
    with refusals():
        return read_signing_request(form.get("file", b"").strip(b"\r\n") or form.get("text", b"").strip())


def _apple(session: Session, secret: EnrolmentSecret, issued: IssuedCertificate, password: str) -> bytes:
    network = supplicants.describe_network(session, tenant_id=secret.tenant_id, now=utc_now(), ssid=secret.ssid)
    # Many releases of iOS and macOS take AES for a wrong password. Nothing is lost: the profile tells the password.
    bundle = certificates.pkcs12_file(issued, password=password, legacy=True)
    return apple.build_mobileconfig(
        network, identity=bundle, password=password, name=issued.common_name, connect=bool(secret.ssid)
    )


def _password() -> str:
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(5)) for _ in range(4))


def _organisation(session: Session, tenant_id: TenantId) -> str:
    return session.get_one(Tenant, tenant_id).name
