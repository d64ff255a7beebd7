"""Predicts whether radiusd will reject a login although its password is correct.

radiusd delays rejects that it decides itself, but not rejects of requests that it proxied (request_finish in
src/main/process.c of 3.2.7). So the verifier delays the response, as it does for a wrong password. Without the delay,
the time until the reject would reveal that the password is correct.

The verifier makes no prediction for requests from inside an EAP-TTLS tunnel. radiusd itself delays the rejects of such
requests, because rlm_eap_ttls resets the destination of proxied requests (eapttls_postproxy). So radiusd does not send
the attributes of these requests to the verifier.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable

from nac.cellformat.replica.store import ReplicaReader
from nac.inventory.identity_sources.verifier_messages import VerificationResult, decode_pairs
from radius.module.decision import AuthenticationCase, LocationCache, decide_case
from radius.module.failure_keys import FailureKey, guess_key, station_key
from radius.module.policies import CompiledPolicies
from radius.module.request import AccessRequest
from radius.verifier.packet import Login

log = logging.getLogger(__name__)

# Limit of remembered wrong passwords, counted by user name and station, for all tenants together.
MAX_FAILURES = 20_000


class RejectForecast:
    def __init__(self, replica: ReplicaReader) -> None:
        self._replica = replica
        self._places = LocationCache()
        self._policies = CompiledPolicies()
        # Time when the response to the last wrong password is sent, by user name and station.
        self._failures: OrderedDict[FailureKey, float] = OrderedDict()

    def is_reject(self, login: Login, answer: VerificationResult, arrived_at: float, held_until: float) -> bool:
        """Whether the NAS will receive an Access-Reject; True if unknown.

        Times are seconds of the event loop's clock. If the result is a reject, the verifier sends the response at
        `held_until`.
        """
        if not login.pairs:
            return not answer.verified
        try:
            return self._is_reject(login, answer, arrived_at, held_until)
        except Exception:  # house-rule: the edge of our code; the response is held, with the traceback in the log
            log.exception("cannot predict the verdict of a login")
            return True

    def _is_reject(self, login: Login, answer: VerificationResult, arrived_at: float, held_until: float) -> bool:
        case = AuthenticationCase(AccessRequest(decode_pairs(login.pairs)), "pap")
        case.answer = answer
        with self._replica.begin() as view:
            case.locate(self._places.find(case.request, view))
            tenant = case.place.slot.tenant if case.place.slot else 0
            keys = (
                (tenant, guess_key(tenant, case.request, case.identity)[1], ""),
                station_key(case.request, case.identity),
            )
            if not answer.verified:
                self._note_failure(keys, held_until)
                return True
            # The module may reject this request: when it arrived, the response to a wrong password was not sent yet.
            if any(self._failures.get(key, 0) >= arrived_at for key in keys):
                return True
            return not decide_case(case, view, self._policies).permitted

    def _note_failure(self, keys: Iterable[FailureKey], held_until: float) -> None:
        for key in keys:
            self._failures[key] = held_until
            self._failures.move_to_end(key)
            if len(self._failures) > MAX_FAILURES:
                self._failures.popitem(last=False)
