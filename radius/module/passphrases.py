"""Adds the Wi-Fi passphrase of a device (iPSK, MPSK, DPSK), in the attributes that its access point reads."""

from pathlib import Path

from nac.cellformat.packet_values import packet_value
from nac.cellformat.replica.records import EndpointRecord
from nac.engine.admission import require_passphrase
from nac.kit.secrets import MasterKeyFile, Sealer
from radius.module.decision import AuthenticationCase
from radius.module.policies import Outcome


class PassphraseOpener:
    """Decrypts passphrases, which the agent encrypted with the cell's key."""

    def __init__(self, key_file: str) -> None:
        self._sealer = Sealer(MasterKeyFile(Path(key_file)))

    def __call__(self, endpoint: EndpointRecord) -> str:
        """Return the passphrase; "" if the endpoint and its group have no passphrase."""
        if not endpoint.sealed_psk:
            return ""
        return self._sealer.open(endpoint.sealed_psk, endpoint.psk_context).decode()


def add_passphrase(case: AuthenticationCase, outcome: Outcome, open_passphrase: PassphraseOpener) -> Outcome:
    """Add the passphrase to the reply.

    Denies access if the outcome requires a passphrase and no passphrase is stored.
    """
    passphrase = open_passphrase(case.endpoint) if case.endpoint is not None else ""
    ssid = next((name for name in packet_value(case.request, "ssid") if isinstance(name, str)), "")
    checked = require_passphrase(outcome, has_passphrase=bool(passphrase), has_ssid=bool(ssid))
    if checked is not outcome:
        return checked
    pairs = tuple(template.fill_passphrase(passphrase, ssid).pair() for template in outcome.passphrase)
    hidden = tuple(template.hidden() for template in outcome.passphrase)
    return outcome._replace(reply=outcome.reply + hidden, sent=outcome.reply + pairs)
