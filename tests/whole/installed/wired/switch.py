"""A switch with one port: hostapd with its driver for wired networks, RADIUS authentication and accounting.

The driver forwards no traffic, so it cannot assign a VLAN. But it reads the VLAN of the Access-Accept, and opens the
port only for a VLAN that the switch has (dynamic_vlan=2).
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from loadtest.radius_client import Target
from tests.whole.installed.wired.process import Daemon, fields
from tests.whole.namespaces import Namespace

PORT = "port1"
IDENTIFIER = "switch-1"
DAS_PORT = 3799
_MESSAGE = re.compile(r"^\S+ RADIUS message: code=\d+ \((\S+)\) .*\n((?:\S+    .*\n)+)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^\S+    Attribute \d+ \((\S+)\) length=\d+\n(?:\S+       Value: (.*)\n)?", re.MULTILINE)


@dataclass(frozen=True)
class RadiusMessage:
    """A RADIUS message as hostapd decoded and printed it. Of equal names, the last value counts."""

    code: str
    values: dict[str, str]


class Switch(Daemon):
    client = "hostapd_cli"

    def __init__(self, namespace: Namespace, folder: Path, target: Target, vlans: Collection[str]) -> None:
        """Create the switch. The namespace must have one interface for each of `vlans`, with the name of the VLAN."""
        super().__init__(namespace, PORT, folder)
        self._target = target
        self._vlans = vlans

    def command(self) -> list[str | Path]:
        vlans = self._write("vlans", "".join(f"{vlan} {vlan_interface(vlan)}\n" for vlan in self._vlans))
        target, secret = self._target, self._target.secret.decode()
        settings = {
            "interface": PORT,
            "driver": "wired",
            "ctrl_interface": self._control,
            "logger_stdout": -1,
            "logger_stdout_level": 0,
            "ieee8021x": 1,
            "use_pae_group_addr": 1,
            # The default VLAN, unless an Access-Accept sets another VLAN. The value 0 would forbid this.
            "eap_reauth_period": 3600,
            "dynamic_vlan": 2,
            "vlan_file": vlans,
            "nas_identifier": IDENTIFIER,
            "own_ip_addr": target.host,
            "auth_server_addr": target.host,
            "auth_server_port": target.auth_port,
            "auth_server_shared_secret": secret,
            "acct_server_addr": target.host,
            "acct_server_port": target.acct_port,
            "acct_server_shared_secret": secret,
            # Dynamic authorization (RFC 5176), with the strictest settings.
            "radius_das_port": DAS_PORT,
            "radius_das_client": f"{target.host} {secret}",
            "radius_das_require_event_timestamp": 1,
            "radius_das_require_message_authenticator": 1,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        return ["hostapd", "-dd", "-t", self._write("hostapd.conf", text)]

    def station(self, mac: str) -> dict[str, str]:
        """The switch's data about the device at its port, empty without a device."""
        return fields(self.ask("sta", ":".join(mac[at : at + 2] for at in range(0, 12, 2))))

    def is_open(self, mac: str) -> bool:
        """Whether the port is authorised for this device."""
        return "[AUTHORIZED]" in self.station(mac).get("flags", "")

    def vlan(self, mac: str) -> str:
        """The VLAN of the device, "" without a VLAN."""
        return self.station(mac).get("vlan_id", "")

    def received(self, code: str) -> list[RadiusMessage]:
        """Received RADIUS messages of this kind, oldest first."""
        return [
            RadiusMessage(found[1], dict(_ATTRIBUTE.findall(found[2])))
            for found in _MESSAGE.finditer(self.log())
            if found[1] == code
        ]


def vlan_interface(vlan: str) -> str:
    return f"vlan{vlan}"
