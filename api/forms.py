"""Parses HTML forms: urlencoded, or multipart with a file (RFC 7578).

Untrusted callers send them, so the parser reads each byte at most twice. A mail parser could take seconds on comments,
nested parts and headers.
"""

import re
from typing import Final
from urllib.parse import parse_qsl

from nac.kit.errors import InvalidInput

_MAX_FIELDS = 20
_URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
# RFC 2046 5.1.1, without spaces, which no browser uses.
_BOUNDARY: Final = re.compile(r""";\s*boundary=("?)([0-9A-Za-z'()+_,./:=?-]{1,70})\1\s*(?:;|$)""", re.IGNORECASE)
# RFC 7578 4.2. A quote in a name is %22 (HTML 4.10.21.8).
_FIELD_NAME: Final = re.compile(
    rb"""^content-disposition:\s*form-data\s*;(?:.*?;)??\s*name=("?)([^";\r\n]*)\1""", re.IGNORECASE | re.MULTILINE
)


class FormUnreadable(InvalidInput):
    """The form cannot be read."""


def read_form(content_type: str, body: bytes) -> dict[str, bytes]:
    """Last value of each field, and the content of files, by name. Raises FormUnreadable."""
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == _URLENCODED:
            text = body.decode("ascii")
            return {name: value.encode() for name, value in parse_qsl(text, max_num_fields=_MAX_FIELDS)}
        if kind == _MULTIPART:
            return _read_multipart(content_type, body)
    except ValueError as exc:
        raise FormUnreadable("The form cannot be read.") from exc
    raise FormUnreadable(f"The Content-Type must be {_URLENCODED} or {_MULTIPART}.")


def _read_multipart(content_type: str, body: bytes) -> dict[str, bytes]:
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise FormUnreadable("The Content-Type has no boundary.")
    delimiter = b"\r\n--" + boundary[2].encode()
    # Split at one delimiter more: the part after it must be the end.
    _, *parts = (b"\r\n" + body).split(delimiter, _MAX_FIELDS + 1)
    if not parts or not parts.pop().startswith(b"--"):
        raise FormUnreadable("The form is incomplete.", remedy=f"Send at most {_MAX_FIELDS} fields.")
    fields: dict[str, bytes] = {}
    for part in parts:
        head, blank, content = part.partition(b"\r\n\r\n")
        name = _FIELD_NAME.search(head)
        if name is None or not blank:
            raise FormUnreadable("A part of the form cannot be read.")
        fields[name[2].decode()] = content
    return fields
