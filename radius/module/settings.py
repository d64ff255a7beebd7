"""Settings from the agent to the module: `module.json` beside the rendered configuration."""

import os
from pathlib import Path
from typing import Literal

import msgspec

# The agent's test request to a new radiusd: an unknown NAS, and a MAC address for documentation (RFC 7042 2.1.2).
CANARY_NAS, CANARY_MAC = "admit-canary", "00005e005300"
# In radiusd.conf: the realm whose home server is the agent's verifier.
VERIFIER_REALM = "admit_verifier"
# Suffix of the shortname of clients that may omit the Message-Authenticator (policy.d/admit_signed).
UNSIGNED_SUFFIX = ":unsigned"


class ModuleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    replica_directory: str
    journal_directory: str
    tls_directory: str
    journal_max_bytes: int
    journal_sync: Literal["interval", "always"]
    # Serial (hex) of the server certificate that radiusd has loaded, by slot number.
    baked_certificates: dict[int, str]
    # 32 bytes, hex: opens passwords for CHAP.
    cell_key_file: str
    # Directory of claims (nac.pools.claims); "" assigns no addresses.
    claims_directory: str = ""
    # File of radius.module.trusted_stations for the next radiusd; "" keeps none.
    trusted_stations_file: str = ""
    # The agent's own secret at slots with lookups; "" for none.
    probe_secret: str = ""
    # Addresses that may omit Message-Authenticator, by slot; without slots with lookups.
    exempt: dict[int, tuple[str, ...]] = {}
    # UDP ports of radiusd, the status port first, and the ports that it starts on if it takes over from another.
    ports: tuple[int, ...] = ()
    # Port and secret of `server status`, by which the module makes rlm_eap end conversations.
    status_port: int = 0
    status_secret: str = ""
    # Limit of EAP conversations in rlm_eap, per slot.
    max_conversations: int = 1024
    started_on: tuple[int, ...] = ()


def load_settings() -> ModuleSettings:
    """Settings from the file in ADMIT_MODULE_SETTINGS, which the agent sets for radiusd."""
    path = os.environ["ADMIT_MODULE_SETTINGS"]
    return msgspec.json.decode(Path(path).read_bytes(), type=ModuleSettings)
