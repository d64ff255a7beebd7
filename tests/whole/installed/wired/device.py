"""The device at the other end of the cable: wpa_supplicant with its driver for wired networks."""

from collections.abc import Mapping
from pathlib import Path

from tests.radius.supplicant import network_block
from tests.whole.installed.wired.process import Daemon, fields
from tests.whole.namespaces import Namespace

CARD = "eth0"


class Device(Daemon):
    client = "wpa_cli"

    def __init__(self, namespace: Namespace, folder: Path, mac: str, network: Mapping[str, str]) -> None:
        """Create the device.

        `network` is a network block of wpa_supplicant.conf(5), `mac` has 12 hexadecimal digits.
        """
        super().__init__(namespace, CARD, folder)
        self.mac = mac
        # Wired networks have no keys.
        self._network = {**network, "eapol_flags": "0"}

    def command(self) -> list[str | Path]:
        address = ":".join(self.mac[at : at + 2] for at in range(0, 12, 2))
        self.namespace.run("ip", "link", "set", CARD, "address", address)
        text = f"ctrl_interface={self._control}\nap_scan=0\n{network_block(self._network)}"
        return ["wpa_supplicant", "-dd", "-t", "-Dwired", f"-i{CARD}", "-c", self._write("device.conf", text)]

    def status(self) -> dict[str, str]:
        return fields(self.ask("status"))

    @property
    def is_authorised(self) -> bool:
        """Whether the device itself considers the port open."""
        return self.status().get("suppPortStatus") == "Authorized"

    @property
    def has_failed(self) -> bool:
        """Whether the device received an EAP-Failure.

        With TLS 1.2 the device ignores a failure after the handshake, because any host could send it (RFC 3748 4.2). It
        waits until it gives up.
        """
        return "EAP: Received EAP-Failure" in self.log()

    def join(self) -> None:
        """Start authentication, as an operating system does on link up. This driver does not watch the link."""
        self.ask("reassociate")

    def log_off(self) -> None:
        self.ask("logoff")
