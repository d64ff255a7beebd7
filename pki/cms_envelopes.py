"""EnvelopedData (RFC 5652 6) for an RSA key, with content encrypted by AES in CBC mode. DES and 3DES are rejected.

An envelope does not prove who sent the content. An attacker may send changed copies of an envelope and observe the
responses (Bleichenbacher 1998, Vaudenay 2002). So every failure of `open_envelope` while it decrypts raises the same
error. If the content key cannot be decrypted, the code continues with a random key.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.asn1 import TLV, decode_der
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7EnvelopeBuilder, PKCS7Options

from pki import cms_structures as structures
from pki import der
from pki.cms import MAX_MESSAGE_BYTES, decode_content, is_identified_by, translate_parse_errors
from pki.errors import AlgorithmRefused, CmsDamaged, EnvelopeRefused

_BLOCK_BYTES = 16
_MAX_RECIPIENTS = 8


ContentCipher = type[algorithms.AES128] | type[algorithms.AES256]
AES_128, AES_256 = algorithms.AES128, algorithms.AES256
_CIPHERS: Mapping[str, ContentCipher] = {"2.16.840.1.101.3.4.1.2": AES_128, "2.16.840.1.101.3.4.1.42": AES_256}


@dataclass(frozen=True, slots=True)
class Recipient:
    """Recipient of an envelope, with the content key, which is encrypted with the recipient's RSA key."""

    identifier: structures.CertificateIdentifier
    algorithm: x509.ObjectIdentifier
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
        enveloped = decode_content(data, structures.ENVELOPED_DATA, structures.EnvelopedData)
        recipients = _read_recipients(enveloped.recipient_infos)
        encrypted = enveloped.encrypted
        cipher = _CIPHERS.get(encrypted.algorithm.algorithm.dotted_string)
        if cipher is not None:
            return Envelope(recipients, cipher, _read_iv(encrypted.algorithm), _read_ciphertext(encrypted))
    raise AlgorithmRefused("The envelope's content must be encrypted with AES-128-CBC or AES-256-CBC.")


def _read_recipients(infos: TLV) -> tuple[Recipient, ...]:
    """Return the recipients of kind KeyTransRecipientInfo. Skips recipients of all other kinds."""
    if infos.tag_bytes != bytes((der.SET,)):
        raise ValueError("the recipients are not a SET")
    members = tuple(der.iter_children(bytes(infos.data)))
    if len(members) > _MAX_RECIPIENTS:
        raise ValueError("too many recipients")
    transported = (
        decode_der(structures.KeyTransRecipientInfo, member.encoded) for member in members if member.tag == der.SEQUENCE
    )
    return tuple(
        Recipient(info.rid, info.key_encryption_algorithm.algorithm, info.encrypted_key) for info in transported
    )


def _read_iv(algorithm: structures.AlgorithmIdentifier) -> bytes:
    if not isinstance(algorithm.parameters, TLV):
        raise ValueError("no initialisation vector")
    iv: bytes = algorithm.parameters.parse(bytes)
    if len(iv) != _BLOCK_BYTES:
        raise ValueError("the initialisation vector has another length than a block")
    return iv


def _read_ciphertext(encrypted: structures.EncryptedContentInfo) -> bytes:
    if encrypted.content is not None:
        return encrypted.content
    if encrypted.chunks is None:
        raise ValueError("no content")
    return b"".join(encrypted.chunks)


def find_recipient(envelope: Envelope, certificate: x509.Certificate) -> Recipient | None:
    with translate_parse_errors("a recipient"):
        return next((each for each in envelope.recipients if is_identified_by(certificate, each.identifier)), None)


def open_envelope(envelope: Envelope, recipient: Recipient, key: rsa.RSAPrivateKey) -> bytes:
    """Decrypt the content. The content can be forged. Raises AlgorithmRefused or EnvelopeRefused."""
    if recipient.algorithm != structures.RSA_ENCRYPTION:
        raise AlgorithmRefused("The envelope's key must be encrypted with RSA (PKCS#1 v1.5).")
    content_key = _decrypt_content_key(recipient, key, envelope.cipher.key_size // 8)
    try:
        decryptor = Cipher(algorithms.AES(content_key), modes.CBC(envelope.iv)).decryptor()
        padded = decryptor.update(envelope.ciphertext) + decryptor.finalize()
        unpadder = PKCS7(8 * _BLOCK_BYTES).unpadder()
        return unpadder.update(padded) + unpadder.finalize()
    except ValueError as exc:
        raise EnvelopeRefused("The envelope cannot be opened.") from exc


def _decrypt_content_key(recipient: Recipient, key: rsa.RSAPrivateKey, length: int) -> bytes:
    """Decrypt the content key. If the decryption fails, returns a random key of the same length (RFC 3218 2.3.2)."""
    stand_in = secrets.token_bytes(length)
    try:
        content_key = key.decrypt(recipient.encrypted_key, padding.PKCS1v15())
    except ValueError:
        return stand_in
    return content_key if len(content_key) == length else stand_in


def seal_envelope(content: bytes, certificate: x509.Certificate, cipher: ContentCipher) -> bytes:
    """Build a ContentInfo with EnvelopedData, encrypted for the RSA key of `certificate`.

    Raises AlgorithmRefused if the certificate's key is not RSA.
    """
    if not isinstance(certificate.public_key(), rsa.RSAPublicKey):
        raise AlgorithmRefused("An envelope needs a recipient with an RSA key.")
    builder = PKCS7EnvelopeBuilder().set_data(content).add_recipient(certificate)
    return builder.set_content_encryption_algorithm(cipher).encrypt(Encoding.DER, [PKCS7Options.Binary])
