"""Responses that eapol_test and radclient received, in the same form for both tools.

Names and values are as in radclient.
"""

import re
from dataclasses import dataclass

Attributes = tuple[tuple[str, str], ...]

_TUNNEL = ("Tunnel-Type", "Tunnel-Medium-Type", "Tunnel-Private-Group-Id")
# Names of values for VLANs (RFC 2868 3.1 and 3.2, RFC 3580 3.31). All other numbers stay numbers.
_TUNNEL_NAMES = {("Tunnel-Type", 13): "VLAN", ("Tunnel-Medium-Type", 6): "IEEE-802"}
_HIGHEST_TAG = 0x1F

_EAPOL_CODE = re.compile(r"^RADIUS message: code=\d+ \((Access-Accept|Access-Reject)\)")
_EAPOL_NAME = re.compile(r"^ {3}Attribute \d+ \((.+)\) length=\d+$")
_EAPOL_VALUE = re.compile(r"^ {6}Value: (.*)$")
_RADCLIENT_CODE = re.compile(r"^Received (\S+) Id \d+ ")
_RADCLIENT_ATTRIBUTE = re.compile(r"^\t(\S+) = (.*)$")


@dataclass(frozen=True, slots=True)
class RadiusResponse:
    """Final response to a request, such as Access-Accept."""

    # Access-Accept, Access-Reject, Accounting-Response.
    code: str
    attributes: Attributes

    def first(self, name: str) -> str:
        return next((value for each, value in self.attributes if each == name), "")

    @property
    def vlan(self) -> str:
        """Return the VLAN of the switch port. RFC 3580 3.31 requires three tunnel attributes with the same tag.

        Returns "" if the response has none of the three attributes. Returns "broken" if only some exist, or if an
        attribute is repeated or has another tag or type.
        """
        tunnel = [(name, value) for name, value in self.attributes if name.partition(":")[0] in _TUNNEL]
        if not tunnel:
            return ""
        tags = {name.partition(":")[2] for name, _ in tunnel}
        values = {name.partition(":")[0]: value for name, value in tunnel}
        whole = len(tunnel) == len(values) == len(_TUNNEL) and len(tags) == 1
        if not whole or values["Tunnel-Type"] != "VLAN" or values["Tunnel-Medium-Type"] != "IEEE-802":
            return "broken"
        return values["Tunnel-Private-Group-Id"]

    @property
    def has_eap_failure(self) -> bool:
        """Whether a reject contains EAP-Failure (RFC 3748 4.2), as RFC 3579 2.6.3 requires."""
        return bool(re.fullmatch(r"(0x)?04[0-9a-f]{2}0004", self.first("EAP-Message")))


def parse_eapol_output(output: str) -> tuple[RadiusResponse, ...]:
    """Return every Access-Accept and Access-Reject in the output of eapol_test, in order."""
    answers: list[RadiusResponse] = []
    code, name, attributes = "", "", []
    for line in [*output.splitlines(), ""]:
        if code and (match := _EAPOL_NAME.match(line)):
            name = match[1]
        elif code and (match := _EAPOL_VALUE.match(line)):
            attributes.append(_from_eapol(name, match[1]))
        else:
            if code:
                answers.append(RadiusResponse(code, tuple(attributes)))
            head = _EAPOL_CODE.match(line)
            code, attributes = head[1] if head else "", []
    return tuple(answers)


def _from_eapol(name: str, value: str) -> tuple[str, str]:
    if name not in _TUNNEL:
        return name, value[1:-1] if value.startswith("'") else value
    octets = bytes.fromhex(value)
    if name == "Tunnel-Private-Group-Id":
        # RFC 2868 3.6: a first octet above 0x1F is part of the text, not a tag.
        tag, text = (octets[0], octets[1:]) if octets[:1] <= bytes((_HIGHEST_TAG,)) else (0, octets)
        return f"{name}:{tag}", text.decode("utf-8", "replace")
    number = int.from_bytes(octets[1:])
    return f"{name}:{octets[0]}", _TUNNEL_NAMES.get((name, number), str(number))


def parse_radclient_output(output: str) -> RadiusResponse | None:
    """Return the response in the output of `radclient -x`; None without a response."""
    code, attributes = "", []
    for line in output.splitlines():
        if head := _RADCLIENT_CODE.match(line):
            code = head[1]
        elif code and (match := _RADCLIENT_ATTRIBUTE.match(line)):
            value = match[2]
            attributes.append((match[1], value[1:-1] if value.startswith('"') else value))
    return RadiusResponse(code, tuple(attributes)) if code else None
