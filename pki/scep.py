"""SCEP messages (RFC 8894): functions to parse and verify requests, and to build responses.

This module does not depend on tenants.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import AttributeOID

from pki import cms, der
from pki.cms_envelopes import ContentCipher, seal_envelope
from pki.errors import AlgorithmRefused, CmsDamaged

MessageType = Literal["PKCSReq", "RenewalReq", "CertPoll", "GetCert", "GetCRL"]
# Values of failInfo (RFC 8894 3.2.1.4.5).
FailInfo = Literal["badAlg", "badMessageCheck", "badRequest", "badTime", "badCertId"]

_MESSAGE_TYPES: Mapping[str, MessageType] = {
    "17": "RenewalReq",
    "19": "PKCSReq",
    "20": "CertPoll",
    "21": "GetCert",
    "22": "GetCRL",
}
_CERT_REP, _SUCCESS, _FAILURE = "3", "0", "2"
_FAIL_INFOS: Mapping[FailInfo, str] = {
    "badAlg": "0",
    "badMessageCheck": "1",
    "badRequest": "2",
    "badTime": "3",
    "badCertId": "4",
}

_VERISIGN = "2.16.840.1.113733.1.9"
_MESSAGE_TYPE, _PKI_STATUS, _FAIL_INFO = f"{_VERISIGN}.2", f"{_VERISIGN}.3", f"{_VERISIGN}.4"
_SENDER_NONCE, _RECIPIENT_NONCE, _TRANSACTION_ID = f"{_VERISIGN}.5", f"{_VERISIGN}.6", f"{_VERISIGN}.7"
_FAIL_INFO_TEXT = "1.3.6.1.5.5.7.24.1"

_TEXTS = (der.PRINTABLE_STRING, der.UTF8_STRING, der.IA5_STRING)
_OCTETS = (der.OCTET_STRING,)
_MAX_TRANSACTION_ID = 255
_NONCE_BYTES, _MAX_NONCE_BYTES = 16, 64
_MAX_CHALLENGE = 2048
# Maximum length of the rejection text, which a device may display.
_MAX_TEXT = 200

# Capabilities (RFC 8894 3.5.2). The RFC's list lacks SHA-384, which Admit supports. strongSwan 5.9.8 reads "SHA-384" as
# "SCEPStandard", and sends no requests to a server without this capability.
CAPABILITIES = ("AES", "POSTPKIOperation", "Renewal", "SCEPStandard", "SHA-256", "SHA-384", "SHA-512")


@dataclass(frozen=True, slots=True)
class ScepRequest:
    """A parsed pkiMessage. Call `require_proven` to verify the signature before you use the content of the message."""

    message_type: MessageType
    transaction_id: str
    sender_nonce: bytes
    signed: cms.SignedMessage

    @property
    def signer(self) -> x509.Certificate:
        return self.signed.signer

    @property
    def envelope(self) -> bytes:
        return self.signed.content

    def require_proven(self) -> None:
        """Verify the signer's signature. Raises AlgorithmRefused or SignatureRefused."""
        cms.verify_signature(self.signed)


@dataclass(frozen=True, slots=True)
class ScepResponder:
    """Certificate and key of the registration authority, to decrypt envelopes and sign responses (RFC 8894 2.1.2)."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey


def read_request(data: bytes) -> ScepRequest:
    """Parse a request. Raises CmsDamaged if the request lacks the values that a response must repeat."""
    signed = cms.read_signed(data)
    message_type = _MESSAGE_TYPES.get(_read_text(signed, _MESSAGE_TYPE))
    if message_type is None:
        raise CmsDamaged("The messageType is not one of the request types (RFC 8894 3.2.1.2).")
    transaction_id = _read_text(signed, _TRANSACTION_ID)
    if not 1 <= len(transaction_id) <= _MAX_TRANSACTION_ID:
        raise CmsDamaged(f"The transactionID must have 1 to {_MAX_TRANSACTION_ID} characters.")
    nonce = _read_value(signed, _SENDER_NONCE, _OCTETS)
    if not 1 <= len(nonce) <= _MAX_NONCE_BYTES:
        raise CmsDamaged("The senderNonce must have 16 bytes.")
    return ScepRequest(message_type, transaction_id, nonce, signed)


def _read_value(signed: cms.SignedMessage, oid: str, tags: tuple[int, ...]) -> bytes:
    attribute = signed.attributes.get(oid)
    if attribute is None or attribute.tag not in tags:
        raise CmsDamaged(f"The signed attribute {oid} is missing (RFC 8894 3.2.1).")
    return attribute.content


def _read_text(signed: cms.SignedMessage, oid: str) -> str:
    with cms.translate_parse_errors(f"attribute {oid} is no text"):
        text = _read_value(signed, oid, _TEXTS).decode("ascii")
        if not text.isprintable():
            raise ValueError
    return text


def read_challenge(request: bytes) -> str:
    """Return the challengePassword (RFC 2985 5.4.1) of a PKCS#10 request in DER; "" if absent.

    Raises CmsDamaged.
    """
    with cms.translate_parse_errors("the challengePassword"):
        parsed = x509.load_der_x509_csr(request)
        try:
            attribute = parsed.attributes.get_attribute_for_oid(AttributeOID.CHALLENGE_PASSWORD)
        except x509.AttributeNotFound:
            return ""
        if len(attribute.value) > _MAX_CHALLENGE:
            raise ValueError
        return attribute.value.decode()


def build_success(
    request: ScepRequest, certificate: x509.Certificate, responder: ScepResponder, cipher: ContentCipher
) -> bytes:
    """Build a CertRep that contains only the certificate, encrypted for the request's signer (RFC 8894 3.3.2).

    Set `cipher` to the cipher of the request, because the client supports this cipher. The response does not contain
    authorities, because some clients use the first certificate of a message as their own. Clients get the authorities
    with GetCACert.
    """
    envelope = seal_envelope(cms.certificates_only([certificate]), request.signer, cipher)
    return _build_reply(request, responder, envelope, {_PKI_STATUS: _encode_text(_SUCCESS)})


def build_failure(request: ScepRequest, fail_info: FailInfo, text: str, responder: ScepResponder) -> bytes:
    """Build a CertRep that rejects the request. `text` is the reason (RFC 8894 3.2.1.4.6)."""
    attributes: dict[str, bytes] = {
        _PKI_STATUS: _encode_text(_FAILURE),
        _FAIL_INFO: _encode_text(_FAIL_INFOS[fail_info]),
        _FAIL_INFO_TEXT: der.encode(der.UTF8_STRING, text[:_MAX_TEXT].encode()),
    }
    return _build_reply(request, responder, b"", attributes)


def _build_reply(
    request: ScepRequest, responder: ScepResponder, content: bytes, attributes: Mapping[str, bytes]
) -> bytes:
    try:
        digest = request.signed.digest_name
    except AlgorithmRefused:
        digest = "sha256"
    common: dict[str, bytes] = {
        _MESSAGE_TYPE: _encode_text(_CERT_REP),
        _TRANSACTION_ID: _encode_text(request.transaction_id),
        _SENDER_NONCE: der.encode(der.OCTET_STRING, secrets.token_bytes(_NONCE_BYTES)),
        _RECIPIENT_NONCE: der.encode(der.OCTET_STRING, request.sender_nonce),
    }
    return cms.sign_content(
        content,
        attributes={**common, **attributes},
        certificate=responder.certificate,
        key=responder.key,
        digest=digest,
    )


def _encode_text(text: str) -> bytes:
    """Encode the text as PrintableString, even if it has characters that PrintableString excludes.

    A transactionID can contain such characters, and a response must repeat the client's transactionID unchanged.
    """
    return der.encode(der.PRINTABLE_STRING, text.encode("ascii"))
