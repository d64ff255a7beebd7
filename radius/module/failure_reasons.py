"""Converts radiusd's messages about a failed EAP or password conversation to a reason code.

radiusd adds a Module-Failure-Message for each error: first the cause, then its consequences. The texts are the
texts of FreeRADIUS 3.2.7/3.2.8 (src/main/tls.c, src/main/cb.c, src/modules/rlm_eap) and OpenSSL 3.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple


class FailureReason(NamedTuple):
    reason: str
    detail: str


# X509_V_ERR_* numbers (OpenSSL x509_vfy.h) in messages such as "(TLS) OpenSSL says error 10 : certificate has expired".
_VERIFY_ERROR = re.compile(r"OpenSSL says error (\d+) : (.*)")
_VERIFY_REASONS = {
    2: "unknown-ca",  # unable to get issuer certificate
    18: "unknown-ca",  # self-signed certificate
    19: "unknown-ca",  # self-signed certificate in chain
    20: "unknown-ca",  # unable to get local issuer certificate
    21: "unknown-ca",  # unable to verify the first certificate
    7: "unknown-ca",  # signature failure: the name is known, the key is not
    9: "certificate-not-yet-valid",
    10: "certificate-expired",
    23: "certificate-revoked",
    26: "wrong-key-usage",  # unsuitable certificate purpose
}
_ALERT = re.compile(r"Alert (read|write):(\w+):(.+)")
_PHRASES = (
    (re.compile(r"unsupported protocol|version too low|no protocols available", re.I), "tls-version"),
    (re.compile(r"no shared cipher|no suitable signature algorithm|no suitable key share", re.I), "no-common-cipher"),
    (re.compile(r"peer did not return a certificate", re.I), "no-certificate"),
    (re.compile(r"TLS reassembled data length|Exceeded maximum record size", re.I), "tls-message-too-long"),
    (
        # Usually inside a tunnel. Outside a tunnel, the module itself handles a NAK.
        re.compile(r"NAK.*(asking|unsupported|bad)|unsupported EAP type|No mutually acceptable types", re.I),
        "method-not-offered",
    ),
    (
        re.compile(
            r"does not match .*known good|Cleartext password .* does not match|"
            r"comparison failed|digests? do(es)? not match|password is incorrect|MS-CHAP2-Response is incorrect",
            re.I,
        ),
        "wrong-password",
    ),
)


def explain_failure(messages: Sequence[str]) -> FailureReason:
    """Reason of a reject that radiusd itself decided. `messages` are in the order of radiusd."""
    for message in messages:
        match = _VERIFY_ERROR.search(message)
        if match:
            return FailureReason(_VERIFY_REASONS.get(int(match[1]), "certificate-invalid"), match[2].strip())
    for message in messages:
        for pattern, reason in _PHRASES:
            if pattern.search(message):
                return FailureReason(reason, _shorten(message))
    for message in messages:
        match = _ALERT.search(message)
        if match and match[1] == "read":
            return FailureReason("supplicant-alert", f"{match[2]} {match[3].strip()}")
    first = _shorten(messages[0]) if messages else ""
    if any("(TLS)" in message for message in messages):
        return FailureReason("tls-failed", first)
    return FailureReason("eap-failed", first)


def _shorten(message: str) -> str:
    return message.strip()[:200]
