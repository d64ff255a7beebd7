"""Settings from the agent for the module, in the file `module.json` of the rendered configuration."""

import os
from pathlib import Path
from typing import Literal

import msgspec

# Values of the agent's test request to a new radiusd: an unknown NAS, and a MAC address reserved for documentation (RFC
# 7042 2.1.2).
CANARY_NAS, CANARY_MAC = "admit-canary", "00005e005300"
# Realm in radiusd.conf whose home server is the agent's verifier.
VERIFIER_REALM = "admit_verifier"
# Suffix of radiusd's shortname for clients that may omit Message-Authenticator (policy.d/admit_signed).
UNSIGNED_SUFFIX = ":unsigned"


class ModuleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    replica_directory: str
    journal_directory: str
    tls_directory: str
    journal_max_bytes: int
    journal_sync: Literal["interval", "always"]
    # Serial number (hex) of the server certificate that radiusd has loaded, by slot number.
    baked_certificates: dict[int, str]
    # File with the cell's key (32 bytes, hex), which decrypts passwords for CHAP.
    cell_key_file: str
    # Directory of the claim files (nac.pools.claims); "" if the cell assigns no addresses.
    claims_directory: str = ""
    # File with trusted stations (radius.module.limiter) for the next radiusd; "" to store no stations.
    trusted_stations_file: str = ""
    # Secret of the agent's probes, for slots that look up secrets; "" if there are no such slots.
    probe_secret: str = ""
    # Addresses that may omit Message-Authenticator, by slot. Does not contain slots that look up secrets.
    exempt: dict[int, tuple[str, ...]] = {}
    # UDP ports of radiusd, the status port first. `started_on` are the temporary ports of a radiusd that takes over
    # ports.
    ports: tuple[int, ...] = ()
    # Port and secret of `server status`, over which the module makes rlm_eap end conversations.
    status_port: int = 0
    status_secret: str = ""
    # Limit of EAP conversations in rlm_eap, per slot.
    max_conversations: int = 1024
    started_on: tuple[int, ...] = ()


def load_settings() -> ModuleSettings:
    """Read the settings from the file in ADMIT_MODULE_SETTINGS. The agent sets this variable for radiusd."""
    path = os.environ["ADMIT_MODULE_SETTINGS"]
    return msgspec.json.decode(Path(path).read_bytes(), type=ModuleSettings)
