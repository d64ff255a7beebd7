"""Last step of each request: apply limits, count the verdict, write the journal record, and respond.

The response can contain attributes that the NAS repeats in accounting (User-Name, Class, Chargeable-User-Identity), and
an MS-CHAPv2 error.
"""

import hashlib
import hmac
import secrets
import time

from nac.cellformat.journal.records import AuthRecord
from nac.cellformat.packet_values import encode_class, visible_pairs
from nac.cellformat.replica.records import NasRecord, SlotRecord
from nac.engine.admission import ACTIVE, TENANT_SUSPENDED, USER_METHODS
from nac.engine.vendors import ReplyPair
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, Journal, log_exception, log_not_ready
from radius.module.credentials import Credentials, escape_quoted
from radius.module.decision import UNKNOWN_LOCATION, AuthenticationCase
from radius.module.failure_keys import MAX_NAME_CHARACTERS, guess_key, station_key
from radius.module.passphrases import PassphraseOpener, add_passphrase
from radius.module.policies import Outcome
from radius.module.pools import AddressAssigner
from radius.module.request import AccessRequest, first_value, group_by_name
from radius.module.settings import CANARY_MAC, CANARY_NAS

_MARK_DECIDED: tuple[radiusd.AttributeUpdate, ...] = (("Admit-Decided", ":=", "1"),)
_DO_NOT_RESPOND: tuple[radiusd.AttributeUpdate, ...] = (("Response-Packet-Type", ":=", "Do-Not-Respond"),)
# "=" sets Auth-Type only if it is missing. So the value of a radiusd module that verified the device stays.
_MARK_PERMITTED: tuple[radiusd.AttributeUpdate, ...] = (("Auth-Type", "=", "Accept"), ("Admit-Permitted", ":=", "1"))


class RequestCompleter:
    def __init__(self, cell: Cell, journal: Journal) -> None:
        self._cell = cell
        self._journal = journal
        self._open_passphrase = PassphraseOpener(cell.settings.cell_key_file)
        self.addresses = AddressAssigner(cell)

    def refusal(self, request: AccessRequest, slot: SlotRecord, at: int, identity: str) -> str:
        """Return the reason to reject the request before its credentials are checked; "" if there is no reason.

        The reason is a suspended tenant, or too many failures of the station.

        `identity` is the inner name if the conversation has a tunnel.
        """
        if slot.status != ACTIVE:
            return TENANT_SUSPENDED.reason
        limited = self._cell.limiter.is_limited(
            station_key(request, identity), limit=slot.failure_limit, window_seconds=slot.failure_window_seconds, at=at
        )
        return "rate-limited" if limited else ""

    def limit_guesses(
        self, credentials: Credentials, request: AccessRequest, slot: SlotRecord, at: int, identity: str
    ) -> Credentials:
        """Reject a login with a password if the user name had too many wrong passwords."""
        if credentials.reason or credentials.method not in USER_METHODS:
            return credentials
        limited = self._has_too_many_guesses(request, slot, at, identity)
        return Credentials(credentials.method, reason="too-many-wrong-passwords") if limited else credentials

    def late_refusal(self, request: AccessRequest, slot: SlotRecord, at: int, identity: str) -> str:
        """Reason to reject a request in the last check; "" if the check finds no reason.

        This check runs just before radiusd compares the password, or before the module decides the verdict.

        A device can open many conversations at the same time. All these conversations pass the first check before any
        password is compared.
        """
        refusal = self.refusal(request, slot, at, identity)
        if not refusal and self._has_too_many_guesses(request, slot, at, identity):
            return "too-many-wrong-passwords"
        return refusal

    def _has_too_many_guesses(self, request: AccessRequest, slot: SlotRecord, at: int, identity: str) -> bool:
        return self._cell.guesses.is_limited(
            guess_key(slot.tenant, request, identity),
            limit=slot.password_failure_limit,
            window_seconds=slot.password_failure_window_seconds,
            at=at,
        )

    def settle(self, case: AuthenticationCase, outcome: Outcome, started: int) -> radiusd.ModuleResult:
        """Count the verdict, write the journal record and respond. `started` is a value of perf_counter_ns."""
        slot = case.place.slot
        if not outcome.permitted and _is_canary(case.request):
            return radiusd.REJECT, {"config": _MARK_DECIDED}
        if slot is None:
            log_not_ready(case.request.slot, case.at)
            return radiusd.REJECT, {"config": _MARK_DECIDED}
        if outcome.needs_passphrase or outcome.passphrase:
            outcome = add_passphrase(case, outcome, self._open_passphrase)
        if outcome.pools and outcome.permitted and case.ticket is None:
            outcome = self.addresses.complete(case, slot, outcome)
        suppressed = self._limit(case, slot, outcome)
        if suppressed is not None:
            self._journal.append(_make_record(case, outcome, (time.perf_counter_ns() - started) // 1000, suppressed))
        if outcome.permitted:
            added = _accounting_name(case, outcome) + accounting_attributes(
                case.request, case.at, case.identity, slot.cui_key
            )
            added += nat_timeout(slot, case.place.nas, outcome.sent)
            return radiusd.UPDATED, {"reply": outcome.sent + added, "config": _MARK_PERMITTED}
        return radiusd.REJECT, {
            "config": _MARK_DECIDED,
            "reply": make_mschap_error(case.request, case.method, outcome.reason),
        }

    def leave_unanswered(self, case: AuthenticationCase) -> radiusd.ModuleResult:
        """Do not respond to a request at a slot (port pair) without a tenant.

        The sender is a NAS of a tenant that has left this cell. Without a response, the NAS tries the server at the
        tenant's new address. After a reject, the NAS would not try that server. Only the agent's test request gets a
        reject.
        """
        if _is_canary(case.request):
            return radiusd.REJECT, {"config": _MARK_DECIDED}
        log_not_ready(case.request.slot, case.at)
        return radiusd.HANDLED, {"config": _DO_NOT_RESPOND}

    def _limit(self, case: AuthenticationCase, slot: SlotRecord, outcome: Outcome) -> int | None:
        """Count a failure.

        Returns the number of earlier, unlogged rejects that this record represents. Returns None if this reject is not
        logged.
        """
        with_password = case.method in USER_METHODS
        if outcome.permitted:
            if with_password:
                self._cell.guesses.count_success(guess_key(slot.tenant, case.request, case.identity))
            return 0
        key = station_key(case.request, case.identity)
        if outcome.reason == "rate-limited":
            return self._cell.limiter.suppressed_before(key, at=case.at)
        self._cell.limiter.count_failure(key, window_seconds=slot.failure_window_seconds, at=case.at)
        if with_password and outcome.reason == "wrong-password":
            window_seconds = slot.password_failure_window_seconds
            self._cell.guesses.count_failure(
                guess_key(slot.tenant, case.request, case.identity), window_seconds=window_seconds, at=case.at
            )
        return 0

    def record_internal_error(self, lists: radiusd.PairLists) -> radiusd.ModuleResult:
        """Log a decision that failed by an internal error, with all readable values of the request."""
        try:
            case = AuthenticationCase(AccessRequest(lists["request"]), "unknown", group_by_name(lists["session-state"]))
            with self._cell.replica.begin() as view:
                # Set only the tenant, because the search of the site may have failed.
                case.locate(UNKNOWN_LOCATION._replace(slot=view.slot(case.request.slot)))
            if case.place.slot is not None:
                self._journal.append(_make_record(case, Outcome(False, "internal-error"), 0, 0))
        except Exception:  # house-rule: only the traceback can be recorded; still rejects
            log_exception("record_internal_error")
        return radiusd.REJECT, {"config": _MARK_DECIDED}


def _accounting_name(case: AuthenticationCase, outcome: Outcome) -> tuple[radiusd.AttributeUpdate, ...]:
    """User-Name for accounting (RFC 2865 5.1): the inner name, or the name in the certificate.

    Returns nothing if the device used the same name outside the tunnel, or if the policy sends a User-Name.
    """
    if case.identity == case.request.user_name or any(pair[0].lower() == "user-name" for pair in outcome.sent):
        return ()
    name = case.identity.encode()[:MAX_NAME_CHARACTERS].decode(errors="ignore")
    return (("User-Name", ":=", escape_quoted(name)),)


def _is_canary(request: AccessRequest) -> bool:
    """Whether this is the agent's test request, which no tenant's log may contain."""
    return request.nas_identifier == CANARY_NAS and request.mac == CANARY_MAC


def _make_record(case: AuthenticationCase, outcome: Outcome, spent_microseconds: int, suppressed: int) -> AuthRecord:
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
        case.identity[:MAX_NAME_CHARACTERS],
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
        first_value(case.certificate, "TLS-Client-Cert-Serial"),
        case.tls_version,
        case.resumed,
        first_value(case.state, "Admit-Conversation"),
        visible_pairs(request.pairs),
        case.facts,
        spent_microseconds,
        suppressed,
        outcome.verdict,
        outcome.monitored,
        case.external_authority,
        case.certificate_der if case.external_authority else b"",
        outcome.addresses,
        request.proof,
        signature=request.signature,
    )


_CUI_OCTETS = 16


def accounting_attributes(
    request: AccessRequest, at: int, identity: str, cui_key: bytes
) -> tuple[radiusd.AttributeUpdate, ...]:
    """Add Class. Add Chargeable-User-Identity if the NAS requests it (RFC 4372 2.1)."""
    class_attribute = ("Class", "+=", encode_class(at))
    if "Chargeable-User-Identity" not in request.attributes or not cui_key:
        return (class_attribute,)
    identifier = _chargeable_user_identity(identity, cui_key).encode().hex()
    return class_attribute, ("Chargeable-User-Identity", ":=", f"0x{identifier}")


def nat_timeout(
    slot: SlotRecord, nas: NasRecord | None, sent: tuple[ReplyPair, ...]
) -> tuple[radiusd.AttributeUpdate, ...]:
    """Session-Timeout (RFC 2865 5.27) for a NAS behind NAT.

    Returns nothing if the NAS is not behind NAT, or if the tenant sets no limit. Also returns nothing if the policy
    sends a Session-Timeout that does not exceed the limit. No CoA or Disconnect request reaches a NAS behind NAT. So
    the sessions at such a NAS must end soon, and the devices authenticate again.
    """
    seconds = slot.nat_session_seconds
    if not seconds or nas is None or not nas.behind_nat:
        return ()
    values = {name.lower(): value for name, _, value in sent}
    policys = values.get("session-timeout", "")
    if policys.isdecimal() and 0 < int(policys) <= seconds:
        return ()
    again = () if "termination-action" in values or policys else (("Termination-Action", ":=", "RADIUS-Request"),)
    return ("Session-Timeout", ":=", str(seconds)), *again


def _chargeable_user_identity(identity: str, key: bytes) -> str:
    """Pseudonym of a user.

    The pseudonym is constant for a user of a tenant, differs between tenants, and does not reveal the name.
    """
    return hmac.new(key, identity.strip().casefold().encode(), hashlib.sha256).hexdigest()[: 2 * _CUI_OCTETS]


_CHALLENGE_OCTETS = 16
# ERROR_ACCT_DISABLED and ERROR_NO_DIALIN_PERMISSION. Any other reason is reported as ERROR_AUTHENTICATION_FAILURE, so
# that errors do not reveal which names exist.
_CODES = {"user-disabled": (647, "Account disabled")}
_PRE_POLICY_REASONS = (
    "wrong-password",
    "unknown-user",
    "directory-needs-pap",
    "mschap-not-allowed",
    "method-not-offered",
    "rate-limited",
    "too-many-wrong-passwords",
    "tenant-suspended",
)
_FAILED, _NOT_PERMITTED = (691, "Authentication failed"), (649, "No permission to connect")


def make_mschap_error(request: AccessRequest, method: str, reason: str) -> tuple[radiusd.AttributeUpdate, ...]:
    """MS-CHAP-Error for the reply, without a retry (R=0), because each attempt must be a new request."""
    if method != "mschapv2":
        return ()
    # In hex. The first octet is the identifier of the response.
    identifier = int(request.attributes.get("MS-CHAP2-Response", "0x00")[2:4] or "0", 16)
    code, message = _CODES.get(reason) or (_FAILED if reason in _PRE_POLICY_REASONS else _NOT_PERMITTED)
    text = f"E={code} R=0 C={secrets.token_hex(_CHALLENGE_OCTETS)} V=3 M={message}"
    return (("MS-CHAP-Error", ":=", f"\\{identifier:03o}{text}"),)
