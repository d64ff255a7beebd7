"""Reads HTML forms with python-multipart: urlencoded, or multipart with files (RFC 7578).

Anyone can send a form, so `api.bodies` limits the size of a form and the time to send a form. A route parses the form
in the route's thread, not in the event loop.
"""

import logging
from typing import Annotated, Final
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header

from api.bodies import require_bounded_body
from api.json_input import accept_body
from nac.kit.errors import InvalidInput

_MAX_FORM_OCTETS = 8 * 1024
_MAX_FIELDS = 20
_URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
# No file on disk: the body is in memory already.
_PARSER_CONFIG: Final = {"MAX_MEMORY_FILE_SIZE": float("inf")}
# Values of `openapi_extra` and of the parameter `body` of a route that takes a form.
FORM_OPENAPI = accept_body(most_bytes=_MAX_FORM_OCTETS, media_type=_URLENCODED)
FormBody = Annotated[bytes, Depends(require_bounded_body(_MAX_FORM_OCTETS))]

# python-multipart logs headers of malformed forms as warnings, and anyone can send many malformed forms.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


class FormUnreadable(InvalidInput):
    """The form cannot be read."""


def read_fields(request: Request, body: bytes) -> dict[str, str]:
    """Text fields of the form by name. Raises FormUnreadable."""
    fields = read_form(request.headers.get("content-type", ""), body)
    return {name: value.decode("utf-8", "replace") for name, value in fields.items()}


def read_form(content_type: str, body: bytes) -> dict[str, bytes]:
    """Values of the fields by name, and contents of the files by name. The last value of a field counts.

    Empty fields and files are omitted.

    Raises FormUnreadable.
    """
    media_type, options = parse_options_header(content_type.encode("latin-1", "replace"))
    kind, boundary = media_type.decode("latin-1"), options.get(b"boundary")
    if kind not in (_URLENCODED, _MULTIPART):
        raise FormUnreadable(f"The Content-Type must be {_URLENCODED} or {_MULTIPART}.")
    if kind == _MULTIPART and not boundary:
        raise FormUnreadable("The Content-Type has no boundary.")
    fields: list[Field | File] = []
    is_complete = False

    def add(field: Field | File) -> None:
        if len(fields) == _MAX_FIELDS:
            raise FormUnreadable("The form has too many fields.", remedy=f"Send at most {_MAX_FIELDS} fields.")
        fields.append(field)

    def finish() -> None:
        nonlocal is_complete
        is_complete = True

    try:
        parser = FormParser(kind, add, add, finish, boundary, config=_PARSER_CONFIG)
        parser.write(body)
        parser.finalize()
    except FormParserError as exc:
        raise FormUnreadable("A part of the form cannot be read.") from exc
    if not is_complete:
        raise FormUnreadable("The form is incomplete.")
    decode = _unquote if kind == _URLENCODED else bytes
    values = ((decode(field.field_name or b""), decode(_read_value(field))) for field in fields)
    return {name.decode("utf-8", "replace"): value for name, value in values if value}


def _read_value(field: Field | File) -> bytes:
    if isinstance(field, Field):
        return field.value or b""
    field.file_object.seek(0)
    return field.file_object.read()


def _unquote(octets: bytes) -> bytes:
    return unquote_to_bytes(octets.replace(b"+", b" "))
