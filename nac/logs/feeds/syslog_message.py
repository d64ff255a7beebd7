"""Events as syslog messages (RFC 5424), framed for TLS (RFC 5425 4.3)."""

import re

from nac.logs.events.document import Event
from nac.logs.feeds.settings import FACILITIES, SEVERITIES, SyslogSettings, get_hostname
from nac.logs.feeds.shortened_events import shorten_event

# Maximum size of a message. Receivers must accept 2,048 octets and should accept 8,192 (RFC 5425 4.3.1).
MAX_OCTETS = 8_192
_BOM = b"\xef\xbb\xbf"
_SD_VALUE_CHARACTERS = 255
# Characters to escape in values of structured data (RFC 5424 6.3.3).
_ESCAPED = re.compile(r'(["\\\]])')
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_NOT_MSGID = re.compile(r"[^!-~]")
# Default severities by kind, or by kind and outcome.
_DEFAULT_SEVERITIES = {
    "authentication": "info",
    "authentication.failure": "warning",
    "accounting": "info",
    "session": "info",
    "coa": "info",
    "coa.failure": "warning",
    "alarm": "warning",
    "endpoint": "notice",
    "certificate": "notice",
    "audit": "notice",
    "feed": "notice",
}


class SyslogFormatter:
    """Formats events as the messages of one feed."""

    def __init__(self, settings: SyslogSettings) -> None:
        self._facility = FACILITIES[settings.facility] * 8
        self._host = get_hostname(settings)
        self._app_name = settings.app_name
        self._sd_id = f"admit@{settings.enterprise}"
        self._bom = settings.bom
        self._severities = _DEFAULT_SEVERITIES | settings.severities

    def frame(self, event: Event) -> bytes:
        """Return the frame `MSG-LEN SP SYSLOG-MSG`. The message has at most MAX_OCTETS."""
        message = self.message(event)
        return b"%d %b" % (len(message), message)

    def message(self, event: Event) -> bytes:
        kind = get_kind(event)
        priority = self._facility + SEVERITIES[self._severity(kind, event.event.outcome)]
        message_id = _NOT_MSGID.sub("-", event.event.action)[:32] or "-"
        # PROCID is "-" (nil), because an event belongs to no process.
        head = (
            f"<{priority}>1 {event.timestamp} {self._host} {self._app_name} - {message_id} {self._data(kind, event)} "
        )
        encoded = head.encode()
        return encoded + self._body(event, MAX_OCTETS - len(encoded))

    def _severity(self, kind: str, outcome: str) -> str:
        return self._severities.get(f"{kind}.{outcome}") or self._severities.get(kind, "info")

    def _data(self, kind: str, event: Event) -> str:
        values = {
            "id": event.event.id,
            "kind": kind,
            "outcome": event.event.outcome,
            "tenant": event.organization.name if event.organization else "",
        }
        parameters = [f'{name}="{_escape(value)}"' for name, value in values.items() if value]
        return f"[{' '.join((self._sd_id, *parameters))}]"

    def _body(self, event: Event, most: int) -> bytes:
        return shorten_event(event, most=most, encoded=self._encoded)

    def _encoded(self, text: bytes) -> bytes:
        if self._bom:
            return _BOM + text
        return text if text.isascii() else _NOT_ASCII.sub(_escape_json, text.decode()).encode()


def get_kind(event: Event) -> str:
    """Return the kind of the event, as in `admit.kind`."""
    return str(event.admit.__struct_config__.tag)


def _escape_json(found: re.Match[str]) -> str:
    """Escape non-ASCII characters, which occur in JSON only inside strings (RFC 8259 7)."""
    return re.sub("....", r"\\u\g<0>", found[0].encode("utf-16-be").hex())


def _escape(value: str) -> str:
    printable = value if value.isprintable() else "".join(c if c.isprintable() else " " for c in value)
    return _ESCAPED.sub(r"\\\1", printable[:_SD_VALUE_CHARACTERS])
