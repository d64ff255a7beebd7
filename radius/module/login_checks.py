"""Checks of a login that only the cell makes: tickets of self-tests, EAP conversations and certificates."""

from typing import TYPE_CHECKING

from nac.cellformat import self_test_ticket as self_test
from nac.cellformat.replica.records import EndpointRecord, SlotRecord
from nac.cellformat.self_test_ticket import Ticket
from nac.engine.admission import Refusal
from radius.module.request import AccessRequest, Attributes, first_value
from radius.module.tls_sessions import (
    CertificateUnreadable,
    SessionUnreadable,
    discard_session,
    keep_resumable,
    read_stored_certificate,
    read_stored_version,
)
from radius.module.trust import (
    check_certificate,
    find_issuer,
    find_unreported_authority,
    holder_name,
    issuer_detail,
)

if TYPE_CHECKING:
    from radius.module.decision import AuthenticationCase


def read_self_test_ticket(request: AccessRequest, slot: SlotRecord, now_seconds: int) -> Ticket | None:
    """Valid self-test ticket of the request; None if the request has no ticket."""
    return self_test.read_ticket(
        mac=request.mac,
        port=request.nas_port,
        group=request.attributes.get("Connect-Info", ""),
        tenant_key=slot.cui_key,
        now_seconds=now_seconds,
    )


def build_played_endpoint(ticket: Ticket) -> EndpointRecord | None:
    """Endpoint that a self-test simulates; None means that the self-test simulates an unknown device."""
    if not ticket.known:
        return None
    return EndpointRecord("", "Self-test", "active", (ticket.group,) if ticket.group else (), 0, {})


def explain_mixed_conversation(state: Attributes) -> str:
    """Check that the session-state belongs to one EAP conversation with one TLS handshake.

    Returns "", or the reason why the session-state does not belong to one such conversation.
    """
    if "Admit-Participants" not in state:
        return "radiusd has no state of this conversation"
    return "two TLS handshakes in one conversation" if len(state.get("TLS-Cache-Filename", ())) > 1 else ""


def refuse_tls_login(case: "AuthenticationCase") -> Refusal | None:
    """Check the certificate of EAP-TLS, or that the password inside a tunnel was verified.

    Stores the attributes for rules in `case`.
    """
    if not case.tls_version:
        # radiusd does not record the version if device data came with the end of the handshake (tls_handshake_recv in
        # src/main/tls.c of 3.2.7). But it always stores the session.
        case.stored_version = read_stored_version(first_value(case.state, "TLS-Cache-Filename"))
    return _check_client_certificate(case) if case.method == "eap-tls" else _check_tunnel(case)


def _check_tunnel(case: "AuthenticationCase") -> Refusal | None:
    """Check that the password was verified in this conversation.

    When radiusd resumes a TLS session, radiusd requests no password. radiusd knows neither the user nor whether the
    session began with a password. radiusd even resumes a session that began with a certificate (cbtls_get_session in
    src/main/tls.c of 3.2.7). So Admit deletes the stored session.
    """
    discard_session(first_value(case.state, "TLS-Cache-Filename"))
    if case.resumed or "Admit-Verified" not in case.state:
        return Refusal("eap-failed", "a TLS session was resumed; this method needs the password every time")
    case.facts["tls.version"] = (case.tls_version,)
    case.facts["tls.resumed"] = (False,)
    return None


def _check_client_certificate(case: "AuthenticationCase") -> Refusal | None:
    try:
        certificate = case.certificate = _read_client_certificate(case)
    except (SessionUnreadable, CertificateUnreadable) as error:
        return Refusal("certificate-invalid", str(error))
    facts, view, slot = case.facts, case.view, case.tenant
    # Policy, log and accounting use the name in the certificate, because the device can send any other name.
    name = holder_name(certificate)
    facts["identity"] = (name,) if name else ()
    case.identity = name or first_value(certificate, "TLS-Client-Cert-Serial")
    facts["tls.version"] = (case.tls_version,)
    facts["tls.resumed"] = (case.resumed,)
    at = case.now_seconds
    issuer = find_issuer(certificate, view, slot)
    reason = check_certificate(certificate, case.certificate_der, issuer, view, slot, facts, at=at)
    case.external_authority = find_unreported_authority(slot.tenant, case.certificate_der, issuer, at=at)
    if not reason and facts.get("certificate.profile") == (self_test.SELF_TEST_PROFILE,):
        # Only Admit has this certificate. A request with it from elsewhere uses a stolen key.
        reason = "" if case.ticket else "self-test-refused"
        facts["certificate.profile"] = (self_test.PLAYED_PROFILE,)
    if not reason:
        return None
    # A full handshake would be rejected as well, so do not keep the session for resumption.
    for session_file in case.session_files:
        discard_session(session_file)
    return Refusal(reason, issuer_detail(reason, certificate))


def _read_client_certificate(case: "AuthenticationCase") -> Attributes:
    """Attributes of the device's certificate, from the session that radiusd has stored.

    Raises SessionUnreadable or CertificateUnreadable.
    """
    try:
        session_file = first_value(case.state, "TLS-Cache-Filename")
        resumed_file = first_value(case.certificate, "TLS-Client-Cert-Filename")
        case.session_files = session_file, resumed_file
        if not session_file:
            session_file = resumed_file
            case.certificate_der, certificate = read_stored_certificate(session_file)
            return certificate
        case.certificate_der, certificate = read_stored_certificate(session_file)
        if case.resumed or case.tls_version == "1.2":
            keep_resumable(session_file, certificate)
        return certificate
    except SessionUnreadable:
        if case.resumed or not case.certificate:
            raise
        # radiusd could not store the session: no disk space, or a device without tickets. Use radiusd's own attributes
        # of the certificate, if any.
        return case.certificate
