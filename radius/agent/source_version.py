"""Version of Admit's configuration and Python that radiusd has loaded. Another version needs a restart."""

import hashlib
import sys
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
# Folders that radiusd reads, or whose modules its interpreter may import.
_LOADED_FOLDERS = ("radius/raddb", "radius/module", "nac", "pki")


@cache
def running_version() -> str:
    """Version of the tree at the first call of this process."""
    return checkout_version(CHECKOUT)


def checkout_version(checkout: Path) -> str:
    """Hash of all files that radiusd may have read, and of the interpreter."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in _LOADED_FOLDERS:
        for path in sorted((checkout / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                digest.update(f"\n{path.relative_to(checkout)} {len(content)}\n".encode())
                digest.update(content)
    return digest.hexdigest()
