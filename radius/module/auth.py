"""radiusd's calls for authentication: `authorize` for the first packet of a conversation, `post_auth` for its end.

radiusd names the end in Admit-Stage: reject (it refused), certificate-sent (a challenge), none (credentials hold).
Admit-Decided tells it that a reject is settled, Auth-Type Accept that a permit is.
"""

import secrets
import time

from nac import clock
from nac.journal.records import AuthRecord, CertificateSentRecord
from nac.mac import normalise_mac
from nac.packet_values import visible_pairs
from nac.replica.records import SlotRecord
from nac.replica.store import ReplicaView
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, Journal, log_exception, say_not_ready, the_cell
from radius.module.credentials import PasswordOpener, examine, method_asked
from radius.module.decision import NOWHERE, Case, Places, decide_case, eap_method, explain_reject
from radius.module.policies import Outcome
from radius.module.request import AccessRequest, collect, first
from radius.module.settings import CANARY_MAC, CANARY_NAS
from radius.module.verified import verifier_answer

_cell: Cell
_journal: Journal
_open_password: PasswordOpener
_places = Places()

_DECIDED: tuple[radiusd.Update, ...] = (("Admit-Decided", ":=", "1"),)
# Where radiusd has verified something itself, its Auth-Type stands: "=" sets only what is not set.
_PERMITTED: tuple[radiusd.Update, ...] = (("Auth-Type", "=", "Accept"),)

# RFC 3162/2865 do not bound it, PostgreSQL's index does: what is longer is no name of ours.
MAX_NAME = 253


def instantiate(_: object) -> int:
    global _cell, _journal, _open_password
    _cell = the_cell()
    _journal = _cell.journal("auth")
    _open_password = PasswordOpener(_cell.settings.cell_key_file)
    return radiusd.OK


def detach(_: object) -> int:
    _journal.close()
    return radiusd.OK


def authorize(lists: radiusd.Lists) -> radiusd.Answer:
    started = time.perf_counter_ns()
    try:
        return _authorize(AccessRequest(lists["request"]), started)
    except Exception:  # house-rule: the edge of our code; an explicit reject, with the trace in the log
        log_exception("authorize")
        return _record_internal_error(lists)


def post_auth(lists: radiusd.Lists) -> radiusd.Answer:
    started = time.perf_counter_ns()
    try:
        request = AccessRequest(lists["request"])
        control = collect(lists["config"])
        stage = first(control, "Admit-Stage")
        if stage == "certificate-sent":
            return _certificate_sent(request)
        state = collect(lists["session-state"])
        case = Case(request, first(control, "Admit-Method") or eap_method(request, state), state)
        case.answer = verifier_answer(control)
        with _cell.replica.begin() as view:
            case.place = _places.find(request, view)
            outcome = _explain(case, view) if stage == "reject" else decide_case(case, view, _cell.policies)
        started -= 1000 * int(first(control, "Admit-Microseconds") or 0)
        return _settle(case, outcome, started)
    except Exception:  # house-rule: the edge of our code; an explicit reject, with the trace in the log
        log_exception("post_auth")
        return _record_internal_error(lists)


def _authorize(request: AccessRequest, started: int) -> radiusd.Answer:
    """The first packet. What needs no word of radiusd is settled here: refusals, and MAC addresses that come by PAP."""
    case = Case(request, "unknown")
    outcome = None
    with _cell.replica.begin() as view:
        case.place = _places.find(request, view)
        slot = case.place.slot
        if slot is None:
            return _settle(case, Outcome(False, "not-ready"), started)
        refusal = _refusal(request, slot, case.at)
        if refusal:
            case.method = method_asked(request)
            if case.method == "mab" and request.names_its_station():
                request.mac = normalise_mac(request.user_name)
            return _settle(case, Outcome(False, refusal), started)
        credentials = examine(request, view, slot, now_seconds=case.at // 1_000_000, open_password=_open_password)
        case.method = credentials.method
        if credentials.reason:
            outcome = Outcome(False, credentials.reason)
        elif credentials.verified:
            outcome = decide_case(case, view, _cell.policies)
    if outcome is not None:
        return _settle(case, outcome, started)
    control, session_state = credentials.control, credentials.session_state
    if credentials.method == "eap":
        server_certificate = _server_certificate(request.slot, slot)
        control += server_certificate
        if session_state:
            # A MAC address is asked for MD5 first and may answer that it wants TLS.
            session_state += server_certificate
    else:
        control += (
            ("Admit-Method", ":=", credentials.method),
            ("Admit-Microseconds", ":=", str((time.perf_counter_ns() - started) // 1000)),
        )
    return radiusd.UPDATED, {"config": control, "session-state": session_state}


def _explain(case: Case, view: ReplicaView) -> Outcome:
    # Asked here as well: packets with a State, made up or not, come past `authorize`.
    slot = case.place.slot
    refusal = _refusal(case.request, slot, case.at) if slot else ""
    return Outcome(False, refusal) if refusal else explain_reject(case, view)


def _refusal(request: AccessRequest, slot: SlotRecord, at: int) -> str:
    if slot.status != "active":
        return "tenant-suspended"
    limited = _cell.limiter.is_limited(
        _limiter_key(request), limit=slot.failure_limit, window_seconds=slot.failure_window_seconds, at=at
    )
    return "rate-limited" if limited else ""


def _server_certificate(number: int, slot: SlotRecord) -> tuple[radiusd.Update, ...]:
    serial = slot.server_certificate
    if not serial or _cell.settings.baked_certificates.get(number) == serial:
        return ()
    return (("TLS-Session-Cert-File", ":=", f"{_cell.settings.tls_directory}/slot-{number}/server-{serial}.pem"),)


def _limiter_key(request: AccessRequest) -> tuple[int, str, str]:
    # A switch may name the station in User-Name alone, in any notation; the decision takes it from there later.
    station = request.mac or normalise_mac(request.user_name)
    return request.slot, request.nas_key(), station or request.user_name[:MAX_NAME]


def _certificate_sent(request: AccessRequest) -> radiusd.Answer:
    with _cell.replica.begin() as view:
        place = _places.find(request, view)
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
            request.user_name[:MAX_NAME],
        )
    )
    if not written:
        return radiusd.NOOP
    return radiusd.UPDATED, {"session-state": (("Admit-Conversation", ":=", conversation),)}


def _settle(case: Case, outcome: Outcome, started: int) -> radiusd.Answer:
    """Count, journal and answer."""
    slot = case.place.slot
    if not outcome.permitted and _is_canary(case.request):
        return radiusd.REJECT, {"config": _DECIDED}
    if slot is None:
        say_not_ready(case.request.slot, case.at)
        return radiusd.REJECT, {"config": _DECIDED}
    suppressed = _limit(case, slot, outcome)
    if suppressed is not None:
        _journal.append(_record(case, outcome, (time.perf_counter_ns() - started) // 1000, suppressed))
    if not outcome.permitted:
        return radiusd.REJECT, {"config": _DECIDED}
    return radiusd.UPDATED, {"reply": outcome.reply, "config": _PERMITTED}


def _is_canary(request: AccessRequest) -> bool:
    """The agent's question whether we answer: it belongs in no tenant's log."""
    return request.nas_identifier == CANARY_NAS and request.mac == CANARY_MAC


def _limit(case: Case, slot: SlotRecord, outcome: Outcome) -> int | None:
    """Counts a failure. Rejects this record also stands for, or None where it is not to be logged."""
    if outcome.permitted:
        return 0
    key = _limiter_key(case.request)
    if outcome.reason == "rate-limited":
        return _cell.limiter.suppressed_before(key, at=case.at)
    _cell.limiter.count_failure(key, window_seconds=slot.failure_window_seconds, at=case.at)
    return 0


def _record(case: Case, outcome: Outcome, spent_microseconds: int, suppressed: int) -> AuthRecord:
    request = case.request
    return AuthRecord(
        case.at,
        request.slot,
        case.place.slot.tenant_id if case.place.slot else "",
        case.place.site_id,
        case.place.nas_id,
        request.nas_address,
        request.nas_identifier,
        request.nas_port,
        request.mac,
        request.user_name[:MAX_NAME],
        case.method,
        outcome.permitted,
        outcome.reason,
        outcome.detail,
        outcome.rule_id,
        outcome.rule_name,
        outcome.policy_id,
        outcome.policy_version,
        outcome.vlan,
        outcome.reply,
        first(case.certificate, "TLS-Client-Cert-Serial"),
        case.tls_version,
        case.resumed,
        first(case.state, "Admit-Conversation"),
        visible_pairs(request.pairs),
        case.facts,
        spent_microseconds,
        suppressed,
    )


def _record_internal_error(lists: radiusd.Lists) -> radiusd.Answer:
    """The decision failed: say so in the log of decisions, as far as the request can still be read."""
    try:
        case = Case(AccessRequest(lists["request"]), "unknown", collect(lists["session-state"]))
        with _cell.replica.begin() as view:
            # Nothing more than whose log it belongs to: what failed may be the way to the site.
            case.place = NOWHERE._replace(slot=view.slot(case.request.slot))
        if case.place.slot is not None:
            _journal.append(_record(case, Outcome(False, "internal-error"), 0, 0))
    except Exception:  # house-rule: nothing more can be recorded than the trace; the reject stands
        log_exception("record_internal_error")
    return radiusd.REJECT, {"config": _DECIDED}
