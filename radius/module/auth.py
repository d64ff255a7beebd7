"""Functions that radiusd calls for authentication.

radiusd calls `authorize` at the first packet of a conversation, and if a device requests another EAP type than the
proposed type. Inside a tunnel, radiusd calls `authorize` for the first packet, and with Admit-Stage "continue" for
later packets that may contain a password.

radiusd calls `post_auth` at the end of a conversation, and for some challenges. For a challenge, Admit-Stage is
certificate-sent, failed-inside or challenge. At the end, Admit-Stage is "reject" if radiusd has rejected the request.
Admit-Stage is absent if the credentials are valid. Admit-Decided marks a reject as final, and Admit-Permitted marks an
accept as final.
"""

import secrets
import time

from nac.cellformat.identity_names import strip_realm
from nac.cellformat.journal.records import CertificateSentRecord
from nac.cellformat.packet_values import is_visible
from nac.cellformat.replica.records import SlotRecord
from nac.cellformat.replica.store import ReplicaView
from nac.engine.admission import USER_METHODS
from nac.inventory.identity_sources.verifier_messages import encode_pairs
from nac.kit import clock
from nac.kit.mac import normalise_mac
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, Journal, get_cell, log_conversations_full, log_exception
from radius.module.completion import RequestCompleter
from radius.module.conversations import Conversation, ConversationEnder, Conversations
from radius.module.credentials import (
    ASK_VERIFIER,
    Credentials,
    PasswordOpener,
    escape_quoted,
    examine_first_packet,
    examine_tunnel_packet,
    requested_method,
)
from radius.module.decision import (
    UNKNOWN_LOCATION,
    AuthenticationCase,
    LocationCache,
    decide_case,
    explain_reject,
)
from radius.module.eap_types import (
    METHOD_OF_TYPE,
    PreferredTypes,
    eap_names,
    find_eap_method,
    first_offered_type,
    list_nak_types,
    offer_detail,
    offered_types,
    tunnel_tls_version,
)
from radius.module.failure_keys import MAX_NAME_CHARACTERS
from radius.module.mab import expected_password
from radius.module.policies import Outcome
from radius.module.pools import AddressAssigner
from radius.module.request import AccessRequest, Attributes, first_value, group_by_name
from radius.module.unsigned import lift_filters
from radius.module.verifier_results import read_verifier_result

_cell: Cell
_journal: Journal
_completer: RequestCompleter
_open_password: PasswordOpener
_ender: ConversationEnder
# Open EAP conversations by slot.
_conversations: dict[int, Conversations] = {}
_locations = LocationCache()
_preferred_types = PreferredTypes()
# Hex digits of the beginning of an EAP packet: "0x", code, identifier, length, type.
_EAP_HEX_DIGITS = 12
# After this time, the module records the challenges of a conversation. So rlm_eap and the module agree on which
# conversations are open.
_WATCH_AFTER_SECONDS = 10


def instantiate(_: object) -> int:
    global _cell, _journal, _completer, _open_password, _ender
    _cell = get_cell()
    _journal = _cell.journal("auth")
    _completer = RequestCompleter(_cell, _journal)
    _open_password = PasswordOpener(_cell.settings.cell_key_file)
    _ender = ConversationEnder(_cell.settings.status_port, _cell.settings.status_secret)
    return radiusd.OK


def detach(_: object) -> int:
    _cell.guesses.trusted.save()
    _journal.close()
    _ender.close()
    return radiusd.OK


def get_address_assigner() -> AddressAssigner:
    return _completer.addresses


def authorize(lists: radiusd.PairLists) -> radiusd.ModuleResult:
    started = time.perf_counter_ns()
    lift_filters()
    try:
        request = AccessRequest(lists["request"])
        tunnel = request.attributes.get("Admit-Tunnel")
        if tunnel:
            control = group_by_name(lists["config"])
            if first_value(control, "Admit-Stage") == "continue":
                return _continue_tunnel(tunnel, request)
            return _authorize_tunnel(tunnel, request, first_value(control, "Admit-Tried"))
        if "State" in request.attributes and request.is_nak():
            return _handle_nak(request, group_by_name(lists["session-state"]), started)
        return _authorize(request, lists["request"] or (), started)
    except Exception:  # house-rule: the edge of our code; an explicit reject, with the trace in the log
        log_exception("authorize")
        if any(name == "Admit-Tunnel" for name, _ in lists["request"] or ()):
            # `post_auth` of the outer conversation writes the journal record.
            return radiusd.UPDATED, {"config": (("Admit-Reason", ":=", "internal-error"),)}
        return _completer.record_internal_error(lists)


def post_auth(lists: radiusd.PairLists) -> radiusd.ModuleResult:
    started = time.perf_counter_ns()
    try:
        request = AccessRequest(lists["request"], lists["config"])
        control = group_by_name(lists["config"])
        stage = first_value(control, "Admit-Stage")
        state = group_by_name(lists["session-state"])
        if stage in ("certificate-sent", "challenge", "failed-inside"):
            _note_challenge(request.slot, state, lists["reply"])
        if stage == "certificate-sent":
            return _record_certificate_sent(request)
        if stage == "challenge":
            return radiusd.NOOP
        method = first_value(control, "Admit-Method") or find_eap_method(request.attributes.get("EAP-Type", ""), state)
        case = AuthenticationCase(request, method, state)
        case.answer = read_verifier_result(control)
        with _cell.replica.begin() as view:
            case.locate(_locations.find(request, view))
            failed = stage in ("reject", "failed-inside")
            outcome = _explain_failure(case, view) if failed else _decide(case, view)
        if stage != "failed-inside":
            outcome = _end_eap(request, state, group_by_name(lists["reply"]), outcome)
        started -= 1000 * int(first_value(control, "Admit-Microseconds") or 0)
        answer = _completer.settle(case, outcome, started)
        if stage == "failed-inside":
            # The conversation continues until the device has the result. The mark prevents a second journal record.
            return radiusd.UPDATED, {"session-state": (("Admit-Journalled", ":=", "1"),)}
        return answer
    except Exception:  # house-rule: the edge of our code; an explicit reject, with the trace in the log
        log_exception("post_auth")
        return _completer.record_internal_error(lists)


def _authorize(request: AccessRequest, pairs: radiusd.Pairs, started: int) -> radiusd.ModuleResult:
    """Handle the first packet of a conversation.

    Decides immediate rejects, and MAB requests by PAP, without radiusd's own modules.

    `pairs` are the packet's attributes as radiusd passes them.
    """
    case = AuthenticationCase(request, "unknown")
    outcome = None
    with _cell.replica.begin() as view:
        case.locate(_locations.find(request, view))
        slot = case.place.slot
        if slot is None:
            return _completer.leave_unanswered(case)
        refusal = _completer.refusal(request, slot, case.at, case.identity)
        if refusal:
            case.method = requested_method(request)
            if case.method == "mab" and request.names_its_station(case.place.nas):
                request.mac = normalise_mac(request.user_name)
            return _completer.settle(case, Outcome(False, refusal), started)
        credentials = examine_first_packet(
            request, view, slot, case.place.nas, now_seconds=case.now_seconds, open_password=_open_password
        )
        credentials = _completer.limit_guesses(credentials, request, slot, case.at, case.identity)
        case.method = credentials.method
        if credentials.reason:
            outcome = _refused_outcome(credentials, slot)
        elif credentials.verified:
            outcome = decide_case(case, view, _cell.policies)
    if outcome is not None:
        return _completer.settle(case, outcome, started)
    if credentials.method == "eap":
        return _begin_eap(case, slot, started)
    control = (
        *credentials.control,
        ("Admit-Method", ":=", credentials.method),
        ("Admit-Microseconds", ":=", str((time.perf_counter_ns() - started) // 1000)),
    )
    if credentials.control is ASK_VERIFIER:
        # The verifier predicts the verdict from these attributes (radius.verifier.forecast).
        pieces = encode_pairs(tuple(pair for pair in pairs if is_visible(pair[0]) or pair[0].startswith("Admit-")))
        control += tuple(("Admit-Request", "+=", piece) for piece in pieces)
    return radiusd.UPDATED, {"config": control}


def _refused_outcome(credentials: Credentials, slot: SlotRecord) -> Outcome:
    is_offer = credentials.reason == "method-not-offered"
    detail = offer_detail(slot.methods, credentials.method) if is_offer else credentials.detail
    return Outcome(False, credentials.reason, detail)


def _begin_eap(case: AuthenticationCase, slot: SlotRecord, started: int) -> radiusd.ModuleResult:
    """Choose the EAP type to propose, and store data for later packets of the conversation."""
    request = case.request
    if request.has_empty_identity():
        return _completer.settle(case, Outcome(False, "empty-identity"), started)
    mac = normalise_mac(request.user_name)
    if mac and request.mac and request.mac != mac:
        case.method = "mab"
        return _completer.settle(case, Outcome(False, "mac-mismatch"), started)
    password = expected_password(request, slot, case.place.nas, _open_password.open_text) if mac else None
    offered = offered_types(slot.methods, mab=password is not None)
    if not offered:
        return _completer.settle(case, Outcome(False, "method-not-offered", offer_detail(slot.methods)), started)
    control = _request_eap_type(_preferred_types.choose_type(offered, request.slot, request.mac), request.slot, slot)
    state = _count_conversation(request, case.at)
    if password is not None and "MD5" in offered:
        # Password for EAP-MD5, if the device selects this type. A device with a certificate may also use its MAC
        # address as identity.
        state += (("Admit-MAB-Password", ":=", escape_quoted(password)),)
    return radiusd.UPDATED, {"config": control, "session-state": state}


def _count_conversation(request: AccessRequest, at: int) -> tuple[radiusd.AttributeUpdate, ...]:
    """Count a new conversation. Ends another conversation if too many are open."""
    conversations = _conversations.get(request.slot)
    if conversations is None:
        conversations = _conversations[request.slot] = Conversations(_cell.settings.max_conversations)
    number, ended = conversations.begin((request.source, request.nas_key()), request.mac, at)
    if ended is not None:
        _ender.end(request.slot, ended)
        log_conversations_full(request.slot, ended.nas[0], at)
    watch_after = 0 if conversations.is_watch_level_reached else at // 1_000_000 + _WATCH_AFTER_SECONDS
    return ("Admit-Number", ":=", str(number)), ("Admit-Watch-After", ":=", str(watch_after))


def _note_challenge(slot: int, state: Attributes, pairs: radiusd.Pairs | None) -> None:
    if int(first_value(state, "Admit-Watch-After") or 0) > clock.epoch_seconds():
        return
    reply = group_by_name(pairs)
    packet = first_value(reply, "EAP-Message")
    conversations = _conversations.get(slot)
    if conversations is not None and len(packet) >= _EAP_HEX_DIGITS:
        found_by = bytes.fromhex(first_value(reply, "State")[2:])
        number = int(first_value(state, "Admit-Number") or 0)
        conversations.note(number, found_by, int(packet[4:6], 16), clock.epoch_microseconds())


def _end_eap(request: AccessRequest, state: Attributes, reply: Attributes, outcome: Outcome) -> Outcome:
    """Count the end of a conversation.

    If the module ended the conversation to make room for other conversations, changes the reason in the outcome.
    """
    number = int(first_value(state, "Admit-Number") or 0)
    conversations = _conversations.get(request.slot)
    if not number or conversations is None:
        return outcome
    is_new = request.attributes.get("EAP-Type") == "Identity"
    if is_new or "EAP-Message" in reply or conversations.was_ended(number):
        conversations.close(number)
    else:
        _end_in_rlm_eap(request, number)
    if outcome.reason == "eap-failed" and (
        conversations.was_ended(number) or (is_new and conversations.is_limit_reached)
    ):
        return Outcome(False, "too-many-conversations")
    return outcome


def _end_in_rlm_eap(request: AccessRequest, number: int) -> None:
    """Free a conversation whose last packet rlm_eap did not receive; otherwise rlm_eap keeps the conversation for 30 s.

    rlm_eap finds the conversation by State and identifier. A device may send a false identifier, so the conversation
    still counts as open.
    """
    found_by = bytes.fromhex(request.attributes.get("State", "")[2:])
    packet = request.attributes.get("EAP-Message", "")
    if found_by and len(packet) >= _EAP_HEX_DIGITS:
        _ender.end(request.slot, Conversation(number, ("", ""), "", 0, found_by, int(packet[4:6], 16)))


def _handle_nak(request: AccessRequest, state: Attributes, started: int) -> radiusd.ModuleResult:
    """Handle a NAK of the device.

    Accepts only types that the tenant offers, so that a device does not reveal its password through an excluded EAP
    type.
    """
    case = AuthenticationCase(request, "eap", state)
    with _cell.replica.begin() as view:
        case.locate(_locations.find(request, view))
    slot = case.place.slot
    if slot is None:
        return _completer.settle(case, Outcome(False, "not-ready"), started)
    proposed = list_nak_types(request.attributes["EAP-Message"])
    eap_type = first_offered_type(proposed, offered_types(slot.methods, mab="Admit-MAB-Password" in state))
    if not eap_type:
        detail = offer_detail(slot.methods, eap_names(proposed) or "no other method")
        _end_in_rlm_eap(request, int(first_value(state, "Admit-Number") or 0))
        return _completer.settle(case, Outcome(False, "method-not-offered", detail), started)
    _preferred_types.remember(request.slot, request.mac, eap_type)
    return radiusd.UPDATED, {"config": _request_eap_type(eap_type, request.slot, slot)}


def _request_eap_type(eap_type: str, number: int, slot: SlotRecord) -> tuple[radiusd.AttributeUpdate, ...]:
    serial = slot.server_certificate
    if not serial or _cell.settings.baked_certificates.get(number) == serial:
        return (("EAP-Type", ":=", eap_type),)
    file = f"{_cell.settings.tls_directory}/slot-{number}/server-{serial}.pem"
    return (("EAP-Type", ":=", eap_type), ("TLS-Session-Cert-File", ":=", file))


def _authorize_tunnel(tunnel: str, request: AccessRequest, tried: str) -> radiusd.ModuleResult:
    """Identify the user inside the tunnel, and choose how to check the password.

    After a reject, `post_auth` of the outer conversation writes the journal record.
    """
    case = AuthenticationCase(request, METHOD_OF_TYPE[tunnel])
    with _cell.replica.begin() as view:
        slot = view.slot(request.slot)
        if slot is None:
            credentials = Credentials(case.method, reason="not-ready")
        else:
            case.locate(UNKNOWN_LOCATION._replace(slot=slot))
            credentials = _examine_tunnel(tunnel, case, view, slot, tried)
    control = (
        *credentials.control,
        ("Admit-Method", ":=", credentials.method),
        ("Admit-User", ":=", escape_quoted(request.user_name)),
    )
    if credentials.reason:
        control += (("Admit-Reason", ":=", credentials.reason), ("Admit-Detail", ":=", credentials.detail))
    return radiusd.UPDATED, {"config": control}


def _examine_tunnel(
    tunnel: str, case: AuthenticationCase, view: ReplicaView, slot: SlotRecord, tried: str
) -> Credentials:
    request = case.request
    identity = strip_realm(case.identity, slot.realms)
    refusal = _completer.refusal(request, slot, case.at, identity)
    if not refusal and tunnel_tls_version(request.attributes.get("TLS-Session-Version", "")) not in slot.tls_versions:
        refusal = "tls-version"
    if refusal:
        return Credentials(case.method, reason=refusal)
    now_seconds = case.now_seconds
    credentials = examine_tunnel_packet(
        tunnel, request, view, slot, tried=tried, now_seconds=now_seconds, open_password=_open_password
    )
    return _completer.limit_guesses(credentials, request, slot, case.at, identity)


def _continue_tunnel(tunnel: str, request: AccessRequest) -> radiusd.ModuleResult:
    """Check the limits again, because a password may follow."""
    case = AuthenticationCase(request, METHOD_OF_TYPE[tunnel])
    with _cell.replica.begin() as view:
        slot = view.slot(request.slot)
    identity = strip_realm(case.identity, slot.realms) if slot else ""
    reason = _completer.late_refusal(request, slot, case.at, identity) if slot else "not-ready"
    return (radiusd.UPDATED, {"config": (("Admit-Reason", ":=", reason),)}) if reason else radiusd.NOOP


def _decide(case: AuthenticationCase, view: ReplicaView) -> Outcome:
    slot = case.place.slot
    if slot is not None and case.method in USER_METHODS:
        refusal = _completer.late_refusal(case.request, slot, case.at, case.identity)
        if refusal:
            return Outcome(False, refusal)
    return decide_case(case, view, _cell.policies)


def _explain_failure(case: AuthenticationCase, view: ReplicaView) -> Outcome:
    # Check the limits here, too: a packet with any State, even an invented one, bypasses `authorize`.
    slot = case.place.slot
    refusal = _completer.refusal(case.request, slot, case.at, case.identity) if slot else ""
    outcome = explain_reject(case, view)
    # A wrong password counts for its user even if the station has reached its own limit meanwhile.
    is_guess = outcome.reason == "wrong-password" and case.method in USER_METHODS
    return Outcome(False, refusal) if refusal and not is_guess else outcome


def _record_certificate_sent(request: AccessRequest) -> radiusd.ModuleResult:
    with _cell.replica.begin() as view:
        place = _locations.find(request, view)
    slot = place.slot
    if slot is None:
        return radiusd.NOOP
    conversation = secrets.token_hex(8)
    written = _journal.append(
        CertificateSentRecord(
            clock.epoch_microseconds(),
            request.slot,
            slot.tenant_id,
            conversation,
            place.site_id,
            place.nas_id,
            request.nas_address,
            request.nas_identifier,
            request.nas_port,
            request.mac,
            request.user_name[:MAX_NAME_CHARACTERS],
            METHOD_OF_TYPE.get(request.attributes.get("EAP-Type", ""), "eap"),
        )
    )
    if not written:
        return radiusd.NOOP
    return radiusd.UPDATED, {"session-state": (("Admit-Conversation", ":=", conversation),)}
