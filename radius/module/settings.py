"""What the agent tells the module: `module.json` beside the rendered configuration."""

import os
from pathlib import Path
from typing import Literal

import msgspec

# What the agent asks a fresh radiusd: a NAS that nobody has, a MAC address for documentation (RFC 7042 2.1.2).
CANARY_NAS, CANARY_MAC = "admit-canary", "00005e005300"
# Of radiusd.conf: the realm whose home server is the agent's verifier.
VERIFIER_REALM = "admit_verifier"
# Ends the shortname of clients that may leave out the Message-Authenticator (policy.d/admit_signed).
UNSIGNED = ":unsigned"


class ModuleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    replica_directory: str
    journal_directory: str
    tls_directory: str
    journal_max_bytes: int
    journal_sync: Literal["interval", "always"]
    # Server certificate (serial, hex) that radiusd has loaded for each slot, by slot number.
    baked_certificates: dict[int, str]
    # 32 bytes, hex: opens the passwords that CHAP needs.
    cell_key_file: str
    # What was taken of pools (nac.pools.claims); "" gives no addresses.
    claims_directory: str = ""
    # Where radius.module.trusted_stations keeps them over an exchange of radiusd; "" forgets them.
    trusted_stations_file: str = ""
    # The agent's own at slots whose secrets are looked up; "" for none.
    probe_secret: str = ""
    # Addresses that need send no Message-Authenticator, by slot; without the slots whose secrets are looked up.
    exempt: dict[int, tuple[str, ...]] = {}
    # UDP ports that radiusd listens on, that for status first, and those that it is started on where it is to take
    # these of another.
    ports: tuple[int, ...] = ()
    # The port and secret of `server status`, where rlm_eap is made to end conversations.
    status_port: int = 0
    status_secret: str = ""
    # EAP conversations that rlm_eap keeps per slot.
    max_conversations: int = 1024
    started_on: tuple[int, ...] = ()


def load_settings() -> ModuleSettings:
    """From the file that ADMIT_MODULE_SETTINGS names; the agent sets it for the radiusd it starts."""
    path = os.environ["ADMIT_MODULE_SETTINGS"]
    return msgspec.json.decode(Path(path).read_bytes(), type=ModuleSettings)
