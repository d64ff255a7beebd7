"""The passphrase of a device's own (iPSK, PPSK, DPSK), opened for the decision that returns it."""

from pathlib import Path

from nac.replica.records import EndpointRecord
from nac.secrets import MasterKeyFile, Sealer


class PassphraseOpener:
    """Opens what the agent sealed with the cell's key."""

    def __init__(self, key_file: str) -> None:
        self._sealer = Sealer(MasterKeyFile(Path(key_file)))

    def __call__(self, endpoint: EndpointRecord) -> str:
        """Its own or its group's, "" where there is none. Whoever returns it keeps it out of every log."""
        if not endpoint.sealed_psk:
            return ""
        return self._sealer.open(endpoint.sealed_psk, endpoint.psk_context).decode()
