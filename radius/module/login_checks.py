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
    """The valid self-test ticket of the request; None without one."""
    return self_test.read_ticket(
        mac=request.mac,
        port=request.nas_port,
        group=request.attributes.get("Connect-Info", ""),
        tenant_key=slot.cui_key,
        now_seconds=now_seconds,
    )


def build_played_endpoint(ticket: Ticket) -> EndpointRecord | None:
    """The endpoint that a self-test simulates; None for an unknown device."""
    if not ticket.known:
        return None
    return EndpointRecord("", "Self-test", "active", (ticket.group,) if ticket.group else (), 0, {})


def explain_mixed_conversation(state: Attributes) -> str:
    """Reason why the session-state is not of one EAP conversation with one TLS handshake; "" if it is."""
    if "Admit-Participants" not in state:
        return "radiusd has no state of this conversation"
    return "two TLS handshakes in one conversation" if len(state.get("TLS-Cache-Filename", ())) > 1 else ""


def refuse_tls_login(case: "AuthenticationCase") -> Refusal | None:
    """Check the certificate, or the password inside the tunnel. Stores facts in `case`."""
    if not case.tls_version:
        # Device data came with the end of the handshake: radiusd notes no version then (tls_handshake_recv in
        # src/main/tls.c of 3.2.7), but always stores the session.
        case.stored_version = read_stored_version(first_value(case.state, "TLS-Cache-Filename"))
    return _check_client_certificate(case) if case.method == "eap-tls" else _check_tunnel(case)


def _check_tunnel(case: "AuthenticationCase") -> Refusal | None:
    """Check that the password held in this very conversation.

    If a TLS session is resumed, radiusd asks for no password and does not know the user, or whether the session began
    with a password. Even one that began with a certificate is accepted (cbtls_get_session in src/main/tls.c of 3.2.7).
    So no session is kept for resumption.
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
    # The certificate's name counts for policy, log and accounting; the device may claim any other one.
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
        # No device has it, so a stolen key of it is useless.
        reason = "" if case.ticket else "self-test-refused"
        facts["certificate.profile"] = (self_test.PLAYED_PROFILE,)
    if not reason:
        return None
    # Full handshakes reject it as well, so the session is useless.
    for session_file in case.session_files:
        discard_session(session_file)
    return Refusal(reason, issuer_detail(reason, certificate))


def _read_client_certificate(case: "AuthenticationCase") -> Attributes:
    """The device's certificate, from the session that radiusd has stored.

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
        # No space for sessions, or a client without tickets: use radiusd's words if possible.
        return case.certificate
