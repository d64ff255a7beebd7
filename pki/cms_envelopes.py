"""EnvelopedData (RFC 5652 6) for one RSA key, with content under AES in CBC mode. DES and 3DES are rejected.

An envelope does not prove its content. An attacker may send a changed copy and observe the response (Bleichenbacher
1998, Vaudenay 2002). So all failures after the recipient is found are the same error, and a wrong content key is used
like a right one.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from asn1crypto import algos, cms
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from pki.cms import (
    MAX_MESSAGE_BYTES,
    asn1_certificate,
    identifier_matches,
    issuer_and_serial,
    load_content,
    translate_parse_errors,
)
from pki.errors import AlgorithmRefused, CmsDamaged, EnvelopeRefused

_RSA = "1.2.840.113549.1.1.1"
_BLOCK_BYTES = 16
_MAX_RECIPIENTS = 8


@dataclass(frozen=True, slots=True)
class ContentCipher:
    # Name in asn1crypto.
    name: str
    key_bytes: int


AES_128 = ContentCipher("aes128_cbc", 16)
AES_256 = ContentCipher("aes256_cbc", 32)
_CIPHERS: Mapping[str, ContentCipher] = {"2.16.840.1.101.3.4.1.2": AES_128, "2.16.840.1.101.3.4.1.42": AES_256}


@dataclass(frozen=True, slots=True)
class Recipient:
    """The owner of the key that the content's key is encrypted to."""

    matches: Callable[[x509.Certificate], bool]
    # Dotted object identifier.
    algorithm: str
    encrypted_key: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    recipients: tuple[Recipient, ...]
    cipher: ContentCipher
    iv: bytes
    ciphertext: bytes


def read_envelope(data: bytes) -> Envelope:
    """Parse EnvelopedData. Raises CmsDamaged or AlgorithmRefused."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise CmsDamaged(f"The envelope has {len(data)} bytes; the maximum is {MAX_MESSAGE_BYTES}.")
    with translate_parse_errors("no EnvelopedData"):
        enveloped = load_content(data, "enveloped_data")
        if len(enveloped["recipient_infos"]) > _MAX_RECIPIENTS:
            raise ValueError("too many recipients")
        recipients = tuple(_read_recipient(info.chosen) for info in enveloped["recipient_infos"] if info.name == "ktri")
        encrypted = enveloped["encrypted_content_info"]
        algorithm = encrypted["content_encryption_algorithm"]
        dotted = algorithm["algorithm"].dotted
        ciphertext = encrypted["encrypted_content"].native
        if dotted in _CIPHERS and isinstance(ciphertext, bytes):
            return Envelope(recipients, _CIPHERS[dotted], _read_iv(algorithm), ciphertext)
    if dotted not in _CIPHERS:
        raise AlgorithmRefused("The envelope's content must be encrypted with AES-128-CBC or AES-256-CBC.")
    raise CmsDamaged("The envelope has no content.")


def _read_iv(algorithm: algos.EncryptionAlgorithm) -> bytes:
    iv = algorithm["parameters"].native
    if not isinstance(iv, bytes) or len(iv) != _BLOCK_BYTES:
        raise ValueError("no initialisation vector")
    return iv


def _read_recipient(info: cms.KeyTransRecipientInfo) -> Recipient:
    identifier = info["rid"]
    identifier.chosen.dump()

    def means(certificate: x509.Certificate) -> bool:
        with translate_parse_errors("a recipient"):
            return identifier_matches(identifier, asn1_certificate(certificate))

    return Recipient(means, info["key_encryption_algorithm"]["algorithm"].dotted, info["encrypted_key"].native)


def find_recipient(envelope: Envelope, certificate: x509.Certificate) -> Recipient | None:
    return next((recipient for recipient in envelope.recipients if recipient.matches(certificate)), None)


def open_envelope(envelope: Envelope, recipient: Recipient, key: rsa.RSAPrivateKey) -> bytes:
    """Decrypt the content, which is still unverified. Raises AlgorithmRefused or EnvelopeRefused."""
    if recipient.algorithm != _RSA:
        raise AlgorithmRefused("The envelope's key must be encrypted with RSA (PKCS#1 v1.5).")
    content_key = _decrypt_content_key(recipient, key, envelope.cipher.key_bytes)
    try:
        decryptor = Cipher(algorithms.AES(content_key), modes.CBC(envelope.iv)).decryptor()
        padded = decryptor.update(envelope.ciphertext) + decryptor.finalize()
        unpadder = PKCS7(8 * _BLOCK_BYTES).unpadder()
        return unpadder.update(padded) + unpadder.finalize()
    except ValueError as exc:
        raise EnvelopeRefused("The envelope cannot be opened.") from exc


def _decrypt_content_key(recipient: Recipient, key: rsa.RSAPrivateKey, length: int) -> bytes:
    """The content key, or a random one if decryption gives none of that length (RFC 3218 2.3.2)."""
    stand_in = secrets.token_bytes(length)
    try:
        found = key.decrypt(recipient.encrypted_key, padding.PKCS1v15())
    except ValueError:
        return stand_in
    return found if len(found) == length else stand_in


def seal_envelope(content: bytes, certificate: x509.Certificate, cipher: ContentCipher) -> bytes:
    """A ContentInfo of EnvelopedData for the certificate's RSA key. Raises AlgorithmRefused for other keys."""
    public_key = certificate.public_key()
    if not isinstance(public_key, rsa.RSAPublicKey):
        raise AlgorithmRefused("An envelope needs a recipient with an RSA key.")
    content_key, iv = secrets.token_bytes(cipher.key_bytes), secrets.token_bytes(_BLOCK_BYTES)
    padder = PKCS7(8 * _BLOCK_BYTES).padder()
    encryptor = Cipher(algorithms.AES(content_key), modes.CBC(iv)).encryptor()
    padded = padder.update(content) + padder.finalize()
    recipient = cms.KeyTransRecipientInfo(
        {
            "version": "v0",
            "rid": cms.RecipientIdentifier(
                {"issuer_and_serial_number": issuer_and_serial(asn1_certificate(certificate))}
            ),
            "key_encryption_algorithm": {"algorithm": "rsaes_pkcs1v15"},
            "encrypted_key": public_key.encrypt(content_key, padding.PKCS1v15()),
        }
    )
    enveloped = cms.EnvelopedData(
        {
            "version": "v0",
            "recipient_infos": [cms.RecipientInfo({"ktri": recipient})],
            "encrypted_content_info": {
                "content_type": "data",
                "content_encryption_algorithm": {"algorithm": cipher.name, "parameters": iv},
                "encrypted_content": encryptor.update(padded) + encryptor.finalize(),
            },
        }
    )
    return bytes(cms.ContentInfo({"content_type": "enveloped_data", "content": enveloped}).dump())
