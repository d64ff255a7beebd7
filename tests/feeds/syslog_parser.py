"""A strict parser of messages (RFC 5424 6) and of their frames (RFC 5425 4.3)."""

import json
import re
from dataclasses import dataclass
from typing import Any

_HEADER = re.compile(
    rb"<(0|[1-9]\d{0,2})>1 "
    rb"(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
    rb"(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)) "
    rb"([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128}) ([!-~]{1,32}) "
)
_SD_NAME = rb"[!#-<>-\\^-~]{1,32}"
_PARAMETER = re.compile(rb" (" + _SD_NAME + rb')="((?:[^"\\\]]|\\["\\\]])*)"', re.DOTALL)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Message:
    facility: int
    severity: int
    timestamp: str
    hostname: str
    app_name: str
    process: str
    message_id: str
    sd_id: str
    parameters: dict[str, str]
    has_bom: bool
    body: dict[str, Any]


def parse(octets: bytes) -> Message:
    """Parse one message. Raises AssertionError if the message is invalid."""
    head = _HEADER.match(octets)
    assert head, octets[:200]
    priority = int(head[1])
    assert priority <= 191
    at = head.end()
    element = re.compile(rb"\[(" + _SD_NAME + rb")").match(octets, at)
    assert element, octets[at : at + 100]
    # Section 7: names not registered with IANA end with an enterprise number.
    assert re.fullmatch(rb"[^@]+@\d+(\.\d+)*", element[1])
    at = element.end()
    parameters = {}
    while parameter := _PARAMETER.match(octets, at):
        value = re.sub(rb'\\(["\\\]])', rb"\1", parameter[2]).decode("utf-8")
        parameters[parameter[1].decode()] = value
        at = parameter.end()
    assert octets[at : at + 2] == b"] ", octets[at : at + 50]
    text = octets[at + 2 :]
    has_bom = text.startswith(_BOM)
    if has_bom:
        text = text.removeprefix(_BOM)
    else:
        # Section 6.4: UTF-8 text begins with a BOM. ASCII text may omit the BOM.
        assert text.isascii()
    names = (head[index].decode() for index in range(2, 7))
    return Message(priority // 8, priority % 8, *names, element[1].decode(), parameters, has_bom, json.loads(text))


def frames(stream: bytes) -> tuple[list[bytes], bytes]:
    """Split a connection's octets into complete messages and the incomplete rest."""
    found = []
    while (blank := stream.find(b" ", 0, 12)) > 0:
        length = stream[:blank]
        assert re.fullmatch(rb"[1-9]\d*", length), length
        end = blank + 1 + int(length)
        if end > len(stream):
            break
        found.append(stream[blank + 1 : end])
        stream = stream[end:]
    assert len(stream) < 2 or stream[:1].isdigit()
    return found, stream
