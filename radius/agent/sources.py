"""What radiusd has loaded of Admit: configuration and Python. Another version of it needs another radiusd."""

import hashlib
import sys
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
# Folders that radiusd reads, or whose modules its interpreter may import.
_LOADED = ("radius/raddb", "radius/module", "nac", "pki")


@cache
def running_version() -> str:
    """Of the tree as it was when this process asked first."""
    return version_of(CHECKOUT)


def version_of(checkout: Path) -> str:
    """Changes with every file that radiusd may have read, and with the interpreter."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in _LOADED:
        for path in sorted((checkout / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                digest.update(f"\n{path.relative_to(checkout)} {len(content)}\n".encode())
                digest.update(content)
    return digest.hexdigest()
