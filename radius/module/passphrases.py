"""The Wi-Fi passphrase of a device (iPSK, MPSK, DPSK), put into the attributes that its access point reads."""

from pathlib import Path

from nac.packet_values import packet_value
from nac.replica.records import EndpointRecord
from nac.secrets import MasterKeyFile, Sealer
from radius.module.decision import Case
from radius.module.policies import Outcome


class PassphraseOpener:
    """Opens what the agent has sealed with the cell's key."""

    def __init__(self, key_file: str) -> None:
        self._sealer = Sealer(MasterKeyFile(Path(key_file)))

    def __call__(self, endpoint: EndpointRecord) -> str:
        """ "" where none is stored with the endpoint or its group."""
        if not endpoint.sealed_psk:
            return ""
        return self._sealer.open(endpoint.sealed_psk, endpoint.psk_context).decode()


def complete(case: Case, outcome: Outcome, open_passphrase: PassphraseOpener) -> Outcome:
    """The outcome with the passphrase in its reply; a deny where it needs one and there is none."""
    passphrase = open_passphrase(case.endpoint) if case.endpoint is not None else ""
    ssid = next((name for name in packet_value(case.request, "ssid") if isinstance(name, str)), "")
    why = "" if passphrase else "none is stored"
    if any(template.encoding == "pmk" for template in outcome.passphrase) and not ssid:
        why = "the request names no SSID, of which the key is made"
    if why and outcome.passphrase:
        # In monitor mode, too: what is given needs it.
        return outcome._replace(monitored="").refused("no-passphrase", why)
    if why:
        return outcome.refused("no-passphrase", why) if outcome.needs_passphrase else outcome
    pairs = tuple(template.fill_passphrase(passphrase, ssid).pair() for template in outcome.passphrase)
    shown = tuple(template.hidden() for template in outcome.passphrase)
    return outcome._replace(reply=outcome.reply + shown, sent=outcome.reply + pairs)
