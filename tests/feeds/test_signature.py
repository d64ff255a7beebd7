"""Signatures of webhooks (Standard Webhooks 1.0)."""

import base64
import hashlib
import hmac

from nac.logs.feeds.webhook_sender import build_signature_headers, generate_secret

# Examples from the tests of the standard.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = 1614265330
BODY = b'{"test": 2432232314}'


def test_signature_matches_the_standard_libraries():
    assert build_signature_headers([SECRET], message_id=ID, at=AT, body=BODY) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_both_secrets_sign_during_a_rotation():
    new = generate_secret()
    signed = build_signature_headers([new, SECRET], message_id=ID, at=AT, body=BODY)["webhook-signature"].split(" ")
    assert signed[1] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert verify(new, {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": signed[0]}, BODY)


def test_secret_has_the_standard_format_and_length():
    assert len(base64.b64decode(generate_secret().removeprefix("whsec_"), validate=True)) == 32
    assert generate_secret() != generate_secret()


def verify(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """Verify a request as a receiver does."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}" in headers["webhook-signature"].split(" ")
