"""The reason in each message of radiusd and OpenSSL. Each match has a near miss."""

import pytest

from radius.module.failure_reasons import explain_failure

VERIFY = "eap_tls: (TLS) OpenSSL says error {} : {}"
WRITE = "eap_tls: (TLS) TLS - Alert write:fatal:{}"
READ = "eap_tls: (TLS) TLS - Alert read:{}"
OPENSSL = "eap_tls: (TLS) Failed reading from OpenSSL: error:{}"
AFTERMATH = (
    "eap_tls: (TLS) TLS - Server : Error in error",
    "eap_tls: (TLS) Failed reading from OpenSSL: error:0A000086:SSL routines::certificate verify failed",
    "eap_tls: (TLS) System call (I/O) error (-1)",
    "eap_tls: (TLS) EAP Receive handshake failed during operation",
    "eap_tls: [eaptls process] = fail",
    "eap_0: Failed continuing EAP TLS (13) session.  EAP sub-module failed",
)


def verify(number, text, alert):
    return (VERIFY.format(number, text), WRITE.format(alert), *AFTERMATH)


# (number, words, alert, reason). The log's detail is the words.
VERIFICATION = [
    (10, "certificate has expired", "certificate expired", "certificate-expired"),
    (12, "CRL has expired", "certificate expired", "certificate-invalid"),
    (9, "certificate is not yet valid", "bad certificate", "certificate-not-yet-valid"),
    (11, "CRL is not yet valid", "bad certificate", "certificate-invalid"),
    (23, "certificate revoked", "certificate revoked", "certificate-revoked"),
    (26, "unsuitable certificate purpose", "unsupported certificate", "wrong-key-usage"),
    (24, "invalid CA certificate", "unknown CA", "certificate-invalid"),
    (25, "path length constraint exceeded", "unknown CA", "certificate-invalid"),
    (2, "unable to get issuer certificate", "unknown CA", "unknown-ca"),
    (7, "certificate signature failure", "unknown CA", "unknown-ca"),
    (18, "self-signed certificate", "unknown CA", "unknown-ca"),
    (19, "self-signed certificate in certificate chain", "unknown CA", "unknown-ca"),
    (20, "unable to get local issuer certificate", "unknown CA", "unknown-ca"),
    (21, "unable to verify the first certificate", "unknown CA", "unknown-ca"),
    # Number 1 is not a prefix match of 10, and 100 is another error than 10.
    (1, "unspecified certificate verification error", "x", "certificate-invalid"),
    (100, "certificate has expired", "x", "certificate-invalid"),
]
# With only one message, the message is the detail.
SINGLE = {
    OPENSSL.format("0A000102:SSL routines::unsupported protocol"): "tls-version",
    OPENSSL.format("0A00018C:SSL routines::version too low"): "tls-version",
    OPENSSL.format("0A00010B:SSL routines::wrong version number"): "tls-failed",
    OPENSSL.format("0A0000C1:SSL routines::no shared cipher"): "no-common-cipher",
    OPENSSL.format("0A000076:SSL routines::no suitable signature algorithm"): "no-common-cipher",
    OPENSSL.format("0A0000F8:SSL routines::unknown cipher returned"): "tls-failed",
    OPENSSL.format("0A0000C7:SSL routines::peer did not return a certificate"): "no-certificate",
    OPENSSL.format("0A000418:SSL routines::tlsv1 alert unknown ca"): "tls-failed",
    # The server's own alert is a consequence, not a reason.
    WRITE.format("handshake failure"): "tls-failed",
    "eap_0: No mutually acceptable types found": "method-not-offered",
    "eap_0: Peer NAK'd asking for bad type NONE (0)": "method-not-offered",
    "eap_0: Malformed EAP Message: too short": "eap-failed",
    "eap_0: Identity does not match User-Name, setting from EAP Identity": "eap-failed",
    'pap: PBKDF2 digest does not match "known good" digest': "wrong-password",
    'pap: Cleartext password does not match "known good" password': "wrong-password",
    "chap: Password comparison failed: password is incorrect": "wrong-password",
    "pap: No password configured for the user.  Cannot do authentication": "eap-failed",
    "mschap: MS-CHAP2-Response is incorrect": "wrong-password",
    "mschap: MS-CHAP2-Response has an invalid length": "eap-failed",
    "eap_0: rlm_eap (EAP): No EAP session matching state 0x00": "eap-failed",
    "": "eap-failed",
}
TABLE = [
    *((verify(number, words, alert), reason, words) for number, words, alert, reason in VERIFICATION),
    *(((message,), reason, message) for message, reason in SINGLE.items()),
    # The cause comes first, even if later messages report alerts.
    (
        (READ.format("fatal:unknown CA"), *verify(10, "certificate has expired", "x")),
        "certificate-expired",
        "certificate has expired",
    ),
    # The device's alert is the reason.
    ((READ.format("fatal:unknown CA"), *AFTERMATH), "supplicant-alert", "fatal unknown CA"),
    ((READ.format("fatal:certificate unknown"),), "supplicant-alert", "fatal certificate unknown"),
    ((READ.format("warning:close notify"),), "supplicant-alert", "warning close notify"),
    ((), "eap-failed", ""),
    (("x" * 5_000,), "eap-failed", "x" * 200),
]


@pytest.mark.parametrize(("messages", "reason", "detail"), TABLE, ids=range(len(TABLE)))
def test_error_texts_map_to_reasons(messages, reason, detail):
    assert explain_failure(messages) == (reason, detail)
