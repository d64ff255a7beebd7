"""SoftHSM 2, a PKCS#11 software token whose store is in a test folder."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pki.pkcs11_tokens import Pkcs11Token

MODULE = Path("/usr/lib/softhsm/libsofthsm2.so")
PIN = "1234-5678"
LABEL = "admit test"


@dataclass(frozen=True)
class SoftHsm:
    store: Path
    configuration: Path

    def token(self, *, pin: str = PIN, label: str = LABEL, module: Path = MODULE) -> Pkcs11Token:
        return Pkcs11Token(module, label, pin)

    def environment(self) -> dict[str, str]:
        return {"SOFTHSM2_CONF": str(self.configuration)}


def make_softhsm(folder: Path) -> SoftHsm:
    """Create a token. The process must set SOFTHSM2_CONF before it first uses the module."""
    store = folder / "tokens"
    store.mkdir()
    configuration = folder / "softhsm2.conf"
    configuration.write_text(f"directories.tokendir = {store}\nobjectstore.backend = file\nlog.level = ERROR\n")
    made = SoftHsm(store, configuration)
    command = ["softhsm2-util", "--init-token", "--free", "--label", LABEL, "--pin", PIN, "--so-pin", "87654321"]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | made.environment())
    return made
