"""Fields of a posted HTML form, of a bounded size: urlencoded, or multipart where a file comes along (RFC 7578)."""

from email.parser import BytesHeaderParser, BytesParser
from email.policy import HTTP
from urllib.parse import parse_qsl

from nac.errors import InvalidInput

_MOST_FIELDS = 20
_URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"


class FormUnreadable(InvalidInput):
    """The form cannot be read."""


def read_form(content_type: str, body: bytes) -> dict[str, bytes]:
    """Field values by name, the last of each; of a file its content. Raises FormUnreadable."""
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == _URLENCODED:
            text = body.decode("ascii")
            return {name: value.encode() for name, value in parse_qsl(text, max_num_fields=_MOST_FIELDS)}
        if kind == _MULTIPART:
            return _multipart(content_type, body)
    except (ValueError, LookupError, TypeError) as exc:
        raise FormUnreadable("The form cannot be read.") from exc
    raise FormUnreadable(f"A form comes as {_URLENCODED} or {_MULTIPART}.")


def _multipart(content_type: str, body: bytes) -> dict[str, bytes]:
    head = b"Content-Type: " + content_type.encode("ascii") + b"\r\n\r\n"
    if BytesHeaderParser(policy=HTTP).parsebytes(head).get_boundary() is None:
        raise FormUnreadable("The form names no boundary.")
    fields: dict[str, bytes] = {}
    for part in BytesParser(policy=HTTP).parsebytes(head + body).iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if len(fields) > _MOST_FIELDS or not isinstance(name, str) or not isinstance(content, bytes):
            raise FormUnreadable("A part of the form cannot be read.")
        fields[name] = content
    return fields
