"""radiusd's calls for authentication: `authorize` for the first packet of a conversation, `post_auth` for its end.

radiusd names the call in Admit-Stage: reject (it refused), certificate-sent (a challenge), none (credentials hold).
"""

import secrets
import time

from nac import clock
from nac.journal.records import AuthRecord, CertificateSentRecord
from nac.replica.records import SlotRecord
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, Journal, log_exception, say_not_ready, the_cell
from radius.module.credentials import PasswordOpener, examine
from radius.module.decision import Case, Outcome, decide_case, locate
from radius.module.request import AccessRequest, collect, first

_cell: Cell
_journal: Journal
_open_password: PasswordOpener

_DECIDED: tuple[radiusd.Update, ...] = (("Admit-Decided", ":=", "1"),)

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
        return _authorize(lists, started)
    except Exception:  # house-rule: the edge of our code; an explicit reject, with the trace in the log
        log_exception("authorize")
        return _refuse("unknown", "internal-error")


def post_auth(lists: radiusd.Lists) -> radiusd.Answer:
    started = time.perf_counter_ns()
    try:
        control = collect(lists["config"])
        if first(control, "Admit-Stage") == "certificate-sent":
            return _certificate_sent(lists)
        return _post_auth(Case(lists, control), started)
    except Exception:  # house-rule: the edge of our code; an explicit reject, with the trace in the log
        log_exception("post_auth")
        return _record_internal_error(lists)


def _authorize(lists: radiusd.Lists, started: int) -> radiusd.Answer:
    request = AccessRequest(lists["request"])
    now = clock.epoch_microseconds()
    with _cell.replica.begin() as view:
        slot = view.slot(request.slot)
        if slot is None:
            return _refuse("unknown", "not-ready")
        if slot.status != "active":
            return _refuse("unknown", "tenant-suspended")
        if _cell.limiter.is_limited(
            _limiter_key(request), limit=slot.failure_limit, window_seconds=slot.failure_window_seconds, at=now
        ):
            return _refuse("unknown", "rate-limited")
        credentials = examine(request, view, slot, now_seconds=now // 1_000_000, open_password=_open_password)
    if credentials.reason:
        return _refuse(credentials.method, credentials.reason)
    control = credentials.control
    if credentials.method == "eap":
        control += _server_certificate(request.slot, slot)
    else:
        control += (
            ("Admit-Method", ":=", credentials.method),
            ("Admit-Microseconds", ":=", str((time.perf_counter_ns() - started) // 1000)),
        )
    return radiusd.UPDATED, {"config": control, "session-state": credentials.session_state}


def _refuse(method: str, reason: str) -> radiusd.Answer:
    return radiusd.REJECT, {"config": (("Admit-Method", ":=", method), ("Admit-Reason", ":=", reason))}


def _server_certificate(number: int, slot: SlotRecord) -> tuple[radiusd.Update, ...]:
    serial = slot.server_certificate
    if not serial or _cell.settings.baked_certificates.get(number) == serial:
        return ()
    return (("TLS-Session-Cert-File", ":=", f"{_cell.settings.tls_directory}/slot-{number}/server-{serial}.pem"),)


def _limiter_key(request: AccessRequest) -> tuple[int, str, str]:
    return request.slot, request.nas_key(), request.mac or request.user_name[:MAX_NAME]


def _certificate_sent(lists: radiusd.Lists) -> radiusd.Answer:
    request = AccessRequest(lists["request"])
    with _cell.replica.begin() as view:
        slot = view.slot(request.slot)
        if slot is None:
            return radiusd.NOOP
        place = locate(request, view, slot)
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


def _post_auth(case: Case, started: int) -> radiusd.Answer:
    with _cell.replica.begin() as view:
        outcome = decide_case(case, view, _cell.policies)
    if case.slot is None:
        say_not_ready(case.request.slot, case.at)
        return radiusd.REJECT, {"config": _DECIDED}
    suppressed = _limit(case, case.slot, outcome)
    if suppressed is not None:
        spent = (time.perf_counter_ns() - started) // 1000 + int(first(case.control, "Admit-Microseconds") or 0)
        _journal.append(_record(case, outcome, spent, suppressed))
    if not outcome.permitted:
        return radiusd.REJECT, {"config": _DECIDED}
    return radiusd.UPDATED, {"reply": outcome.reply, "config": _DECIDED}


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
        case.slot.tenant_id if case.slot else "",
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
        case.values,
        spent_microseconds,
        suppressed,
    )


def _record_internal_error(lists: radiusd.Lists) -> radiusd.Answer:
    """The decision failed: say so in the log of decisions, as far as the request can still be read."""
    try:
        case = Case(lists, {})
        with _cell.replica.begin() as view:
            case.slot = view.slot(case.request.slot)
        if case.slot is not None:
            _journal.append(_record(case, Outcome(False, "internal-error"), 0, 0))
    except Exception:  # house-rule: nothing more can be recorded than the trace; the reject stands
        log_exception("record_internal_error")
    return radiusd.REJECT, {"config": _DECIDED}
