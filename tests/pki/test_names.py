import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from pki.errors import NameNotAllowed, RequestNotAllowed
from pki.names import UPN_OID, San, clean_text, parse_san, read_common_name, read_sans, subject_name
from pki.openssl_names import format_one_line
from pki.signing_requests import read_signing_request
from tests.pki.openssl import answer


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("x" * 64, True),
        ("x" * 65, False),
        ("Müller 東京", True),
        ("東" * 21, True),
        # A name of 66 octets in 22 characters.
        ("東" * 22, False),
        ("", False),
        (" x", False),
        ("x\u00a0", False),
        ("a\nb", False),
        ("a\0b", False),
        # Reverses the direction of writing: "gnp.exe" would look like another name.
        ("a\u202eb", False),
        ("a\u200bb", False),
        ("\ud800", False),
        ("a\u2028b", False),
    ],
)
def test_only_printable_text_is_a_valid_common_name(value, allowed):
    if allowed:
        assert read_common_name(subject_name(value)) == value
    else:
        with pytest.raises(NameNotAllowed):
            subject_name(value)


def test_text_is_normalized_to_composed_form():
    assert clean_text("Mu\u0308ller", what="name", limit=10) == "M\u00fcller"


def test_subject_is_ordered_from_general_to_specific():
    name = subject_name("Alpha Issuing CA", organisation="Alpha", serial_number="alpha-3f2a91bc")
    assert format_one_line(name) == "/O=Alpha/serialNumber=alpha-3f2a91bc/CN=Alpha Issuing CA"
    with pytest.raises(NameNotAllowed, match="PrintableString"):
        subject_name("x", serial_number="a_b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dns:Laptop-1.Alpha.EXAMPLE", "dns:laptop-1.alpha.example"),
        ("email:eve.o'hara@Alpha.example", "email:eve.o'hara@alpha.example"),
        ("uri:urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "uri:urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        ("uri:https://mdm.example/device?id=1", "uri:https://mdm.example/device?id=1"),
        ("upn:eve@älpha.example", "upn:eve@älpha.example"),
    ],
)
def test_alternative_name_is_parsed_from_text(text, expected):
    assert str(parse_san(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "host.example",
        "ip:10.0.0",
        "dns:",
        "dns:-a.example",
        "dns:a-.example",
        "dns:a..b",
        "dns:*.example",
        "dns:münchen.example",
        "dns:" + "a" * 64,
        "dns:" + ".".join(["abcdefgh"] * 29),
        "dns:a.example\n",
        "email:eve",
        "email:eve@",
        "email:@alpha.example",
        "email:ève@alpha.example",
        "uri:relative/path",
        "uri:urn:",
        "uri:https://a b/",
        "uri:https://[::1",
        "upn:eve",
        "upn:eve\0@alpha.example",
    ],
)
def test_invalid_alternative_name_is_rejected(text):
    with pytest.raises(NameNotAllowed):
        parse_san(text)


def test_openssl_reads_the_alternative_names(chain):
    sans = (San("email", "eve@alpha.example"), San("upn", "eve@älpha.example"), San("uri", "urn:x:1"))
    certificate = chain.issue("eap-client-user", "eve", *sans)
    assert read_sans(certificate) == sans
    shown = answer("x509", "-noout", "-ext", "subjectAltName", data=certificate.public_bytes(Encoding.PEM))
    assert "email:eve@alpha.example" in shown
    assert "URI:urn:x:1" in shown
    assert "eve@älpha.example" in shown


def test_principal_name_that_is_not_text_is_rejected():
    principal = x509.OtherName(UPN_OID, b"\x0c\x03\xff@b")
    builder = x509.CertificateSigningRequestBuilder(subject_name("eve"))
    builder = builder.add_extension(x509.SubjectAlternativeName([principal]), critical=False)
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    with pytest.raises(RequestNotAllowed, match="not a readable PKCS#10 request"):
        read_signing_request(request.public_bytes(Encoding.DER))
