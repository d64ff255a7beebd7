"""CMS and SCEP messages as bytes: the messages that the parsers accept, and the errors that they raise."""

from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.asn1 import TLV, SetOf, decode_der, encode_der
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs7
from hypothesis import given, settings
from hypothesis import strategies as st

from pki import cms, der, scep
from pki import cms_structures as structures
from pki.cms_envelopes import AES_128, AES_256, find_recipient, open_envelope, read_envelope, seal_envelope
from pki.errors import AlgorithmRefused, CmsDamaged, EnvelopeRefused, PkiError, SignatureRefused
from tests.pki.openssl import openssl
from tests.run_depth import examples
from tests.scep.client import Device, name_of, self_signed, signing_request
from tests.scep.mutations import mutations

DES_EDE3_CBC = x509.ObjectIdentifier("1.2.840.113549.3.7")
MESSAGE_DIGEST = "1.2.840.113549.1.9.4"


@cache
def device() -> Device:
    return Device("laptop")


@cache
def registration() -> tuple[x509.Certificate, rsa.RSAPrivateKey]:
    key = Device()
    return key.identity, key.key


@cache
def request() -> bytes:
    """A valid PKCSReq message (RFC 8894)."""
    certificate, _ = registration()
    return device().message(signing_request(device().key, "laptop", "challenge"), certificate)


def read_whole(data: bytes) -> bytes:
    """Parse a message as the server does, including the challenge in the certificate request."""
    certificate, key = registration()
    message = scep.read_request(data)
    message.require_proven()
    return open_as_server(message.envelope, certificate, key)


def open_as_server(data: bytes, certificate: x509.Certificate, key: rsa.RSAPrivateKey) -> bytes:
    envelope = read_envelope(data)
    recipient = find_recipient(envelope, certificate)
    if recipient is None:
        raise EnvelopeRefused("not for us")
    content = open_envelope(envelope, recipient, key)
    scep.read_challenge(content)
    return content


def test_request_round_trips():
    message = scep.read_request(request())
    assert (message.message_type, message.transaction_id) == ("PKCSReq", device().transaction_id)
    assert (message.sender_nonce, message.signer) == (device().nonce, device().identity)
    assert scep.read_challenge(read_whole(request())) == "challenge"


@pytest.mark.parametrize("content", [b"", b"x", b"x" * 16, b"x" * 1000])
@pytest.mark.parametrize("cipher", [AES_128, AES_256])
def test_envelope_round_trips(content, cipher):
    certificate, key = registration()
    envelope = read_envelope(seal_envelope(content, certificate, cipher))
    recipient = find_recipient(envelope, certificate)
    assert (envelope.cipher, open_envelope(envelope, recipient, key)) == (cipher, content)


def test_envelope_for_an_elliptic_curve_key_is_rejected():
    with pytest.raises(AlgorithmRefused):
        seal_envelope(b"x", self_signed(ec.generate_private_key(ec.SECP256R1())), AES_128)


def test_envelope_with_another_cipher_is_rejected():
    """Another library encrypted the envelope with 3DES."""
    certificate, _ = registration()
    builder = pkcs7.PKCS7EnvelopeBuilder().set_data(b"x").add_recipient(certificate)
    aes = builder.set_content_encryption_algorithm(algorithms.AES128).encrypt(Encoding.DER, [pkcs7.PKCS7Options.Binary])
    assert read_envelope(aes).cipher == AES_128
    with pytest.raises(AlgorithmRefused, match="AES-128-CBC or AES-256-CBC"):
        read_envelope(with_cipher(aes, DES_EDE3_CBC, bytes(8)))


def with_cipher(envelope: bytes, algorithm: x509.ObjectIdentifier, iv: bytes) -> bytes:
    enveloped = decode_der(structures.ContentInfo, envelope).content.parse(structures.EnvelopedData)
    enveloped.encrypted.algorithm = structures.AlgorithmIdentifier(
        algorithm=algorithm, parameters=decode_der(TLV, encode_der(iv))
    )
    return wrap(structures.ENVELOPED_DATA, enveloped)


def wrap(kind: x509.ObjectIdentifier, content: object) -> bytes:
    return encode_der(structures.ContentInfo(content_type=kind, content=decode_der(TLV, encode_der(content))))


def signed_data(message: bytes) -> structures.SignedData:
    return decode_der(structures.ContentInfo, message).content.parse(structures.SignedData)


@pytest.mark.parametrize(
    ("dotted", "algorithm"),
    [("1.3.14.3.2.26", hashes.SHA1()), ("1.2.840.113549.2.5", hashes.MD5())],  # noqa: S303 -- to be refused
    ids=["sha1", "md5"],
)
def test_weak_digest_is_rejected_despite_a_valid_signature(dotted, algorithm):
    signed = signed_data(request())
    [signer] = signed.signer_infos.as_list()
    signer.digest_algorithm.algorithm = x509.ObjectIdentifier(dotted)
    hasher = hashes.Hash(algorithm)
    hasher.update(signed.encapsulated.content)
    attributes = [
        attribute
        for attribute in map(encode_der, signer.signed_attributes)
        if decode_der(structures.Attribute, attribute).type.dotted_string != MESSAGE_DIGEST
    ]
    digest = der.encode(der.SET, encode_der(hasher.finalize()))
    attributes.append(der.sequence(der.object_identifier(MESSAGE_DIGEST), digest))
    signer.signed_attributes = [decode_der(TLV, attribute) for attribute in attributes]
    signer.signature = device().key.sign(der.encode(der.SET, b"".join(attributes)), padding.PKCS1v15(), algorithm)
    signed.signer_infos = SetOf([signer])
    message = scep.read_request(wrap(structures.SIGNED_DATA, signed))
    with pytest.raises(AlgorithmRefused, match="SHA-256"):
        message.require_proven()
    # The response that rejects the request uses a strong digest.
    certificate, key = registration()
    answer = scep.build_failure(message, "badAlg", "no", scep.ScepResponder(certificate, key))
    assert cms.read_signed(answer).digest_name == "sha256"


def test_signature_of_other_content_or_another_key_is_detected():
    signed = signed_data(request())
    signed.encapsulated.content = b"other"
    certificate, _ = registration()
    impostor = Device(identity=device().identity)
    for message in (wrap(structures.SIGNED_DATA, signed), impostor.message(b"x", certificate)):
        with pytest.raises(SignatureRefused):
            scep.read_request(message).require_proven()


def test_message_without_required_attributes_is_rejected():
    bare = cms.sign_content(b"x", attributes={}, certificate=device().identity, key=device().key)
    with pytest.raises(CmsDamaged, match=r"2\.16\.840\.1\.113733\.1\.9\.2"):
        scep.read_request(bare)
    certificate, _ = registration()
    with pytest.raises(CmsDamaged, match="messageType"):
        scep.read_request(device().message(b"x", certificate, kind="99"))


def test_message_over_the_size_limit_is_not_parsed():
    for read in (scep.read_request, read_envelope):
        with pytest.raises(CmsDamaged, match="maximum is 65536"):
            read(b"\x30" * 65_537)


@pytest.mark.parametrize("nesting", [b"\x30\x80", b"\x24\x80", b"\xa0\x80", b"\x30\x82\xff\xff"])
def test_deep_nesting_is_rejected(nesting):
    with pytest.raises(CmsDamaged):
        scep.read_request(nesting * (60_000 // len(nesting)))


def test_chunks_of_indefinite_length_are_parsed():
    """Content in chunks, as Bouncy Castle encodes it (X.690 8.1.3.6)."""
    content = signed_data(request()).encapsulated.content
    parts = [content[at : at + 500] for at in range(0, len(content), 500)]
    chunks = b"".join(b"\x04\x82" + len(part).to_bytes(2) + part for part in parts)
    plain = b"\x04\x82" + len(content).to_bytes(2) + content
    wrapped = b"\xa0\x82" + len(plain).to_bytes(2) + plain
    assert wrapped in request()
    # Every enclosing element also has indefinite length.
    signed = request()
    at = signed.index(wrapped)
    octets = b"\xa0\x80\x24\x80" + chunks + b"\0\0\0\0"
    data_type = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01"
    head = signed[: at - len(data_type)]
    outer_type = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02"
    inner = head[head.index(b"\x02\x01\x01") : head.rindex(b"\x30\x82")]
    tail = signed[at + len(wrapped) :]
    encapsulated = b"\x30\x80" + data_type + octets + b"\0\0"
    whole = b"\x30\x80" + outer_type + b"\xa0\x80\x30\x80" + inner + encapsulated + tail + b"\0\0" * 3
    assert scep.read_challenge(read_whole(whole)) == "challenge"


def test_members_in_any_order_are_parsed():
    """Some clients do not sort the members of a SET OF, and sign the unsorted form."""
    good = request()
    signed = signed_data(good)
    [signer] = signed.signer_infos.as_list()
    attributes = [encode_der(attribute) for attribute in reversed(signer.signed_attributes)]
    signer.signed_attributes = [decode_der(TLV, attribute) for attribute in attributes]
    signed_bytes = der.encode(der.SET, b"".join(attributes))
    signer.signature = device().key.sign(signed_bytes, padding.PKCS1v15(), hashes.SHA256())
    signed.signer_infos = SetOf([signer])
    authority = registration()[0].public_bytes(Encoding.DER)
    signed.certificates = [*signed.certificates, decode_der(TLV, authority)]
    for certificates in (signed.certificates, [*reversed(signed.certificates)]):
        signed.certificates = certificates
        assert scep.read_challenge(read_whole(wrap(structures.SIGNED_DATA, signed))) == "challenge"


def certificate_with_key_identifier(key: rsa.RSAPrivateKey) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name_of("x"), name_of("x"), key.public_key(), 1)
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(1))
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return builder.sign(key, hashes.SHA256())


@pytest.mark.parametrize("options", [(), ("-keyid",), ("-stream",), ("-stream", "-keyid")], ids=" ".join)
def test_openssl_message_is_parsed(options, tmp_path):
    """OpenSSL streams with indefinite lengths and chunks. A key identifier replaces issuer and serial number."""
    key = device().key
    certificate = certificate_with_key_identifier(key)
    pem = tmp_path / "device.pem"
    unencrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(certificate.public_bytes(Encoding.PEM) + unencrypted)

    def run_cms(*arguments: str, data: bytes) -> bytes:
        result = openssl("cms", "-binary", "-outform", "DER", *options, *arguments, data=data)
        assert result.returncode == 0, result.stderr.decode()
        assert (result.stdout[1] == 0x80) == ("-stream" in options)
        return result.stdout

    content = b"content " * 1000
    signed = cms.read_signed(run_cms("-sign", "-nodetach", "-signer", str(pem), data=content))
    cms.verify_signature(signed)
    assert (signed.content, signed.signer) == (content, certificate)
    sealed = run_cms("-encrypt", "-aes-256-cbc", "-recip", str(pem), data=content)
    envelope = read_envelope(sealed)
    assert find_recipient(envelope, registration()[0]) is None
    assert open_envelope(envelope, find_recipient(envelope, certificate), key) == content


def test_issuer_with_another_string_type_is_equal():
    """Some clients write the issuer in another string type or case than the certificate's issuer."""
    signed = signed_data(request())
    [signer] = signed.signer_infos.as_list()
    name = encode_der(signer.sid.issuer)
    other = name.replace(b"\x0c\x04SCEP", b"\x13\x04scep")
    assert other != name
    signer.sid.issuer = decode_der(TLV, other)
    signed.signer_infos = SetOf([signer])
    assert scep.read_request(wrap(structures.SIGNED_DATA, signed)).signer == device().identity


@given(st.binary(max_size=400))
@settings(max_examples=examples(300), deadline=None)
def test_random_bytes_raise_only_the_documented_error(data):
    for read in (scep.read_request, read_envelope, scep.read_challenge):
        with pytest.raises(PkiError):
            read(data)


@given(st.data())
@settings(max_examples=examples(400), deadline=None)
def test_changed_message_is_rejected_or_still_verifies(data):
    changed = data.draw(mutations(request()))
    try:
        content = read_whole(changed)
    except PkiError:
        return
    # Unsigned parts may change without effect.
    assert scep.read_challenge(content) == "challenge"


@given(st.data())
@settings(max_examples=examples(300), deadline=None)
def test_changed_envelope_is_rejected_or_decrypted(data):
    certificate, key = registration()
    good = scep.read_request(request()).envelope
    try:
        open_as_server(data.draw(mutations(good)), certificate, key)
    except PkiError:
        return


@given(st.data())
@settings(max_examples=examples(200), deadline=None)
def test_changed_certificate_request_is_parsed_or_rejected(data):
    good = signing_request(device().key, "laptop", "challenge")
    try:
        scep.read_challenge(data.draw(mutations(good)))
    except PkiError:
        return
