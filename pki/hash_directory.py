"""A directory of authorities in the form of OpenSSL's `ca_path`: each certificate is in a file `<subject hash>.<n>`.

A running radiusd reads the directory. For the subject hash of a name, radiusd opens the files .0, .1 and so on, up to
the first missing number. The next search for this name continues at the missing number. So radiusd finds a new
certificate only in a file with a higher number, and existing files must keep their numbers. If the number of a file
becomes lower, radiusd must restart to find the certificate in this file (tenants.trust_generation).
"""

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pki.openssl_names import subject_hash

_ENTRY = re.compile(r"(?P<hash>[0-9a-f]{8})\.(?P<number>0|[1-9][0-9]*)")
_TEMPORARY_PREFIX = ".authority-"


def write_authorities(directory: Path, certificates: Iterable[x509.Certificate]) -> None:
    """Make the directory contain exactly these authorities.

    Replaces files atomically. Does not change files whose names do not have the form `<subject hash>.<n>`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    pems_by_hash: dict[str, list[bytes]] = {}
    for certificate in certificates:
        pems = pems_by_hash.setdefault(subject_hash(certificate), [])
        pem = certificate.public_bytes(Encoding.PEM)
        if pem not in pems:
            pems.append(pem)
    _remove_leftovers(directory)
    for name_hash, present in _read_entries(directory).items():
        _arrange(directory, name_hash, present, pems_by_hash.pop(name_hash, []))
    for name_hash, pems in pems_by_hash.items():
        _arrange(directory, name_hash, {}, pems)


def _read_entries(directory: Path) -> dict[str, dict[int, bytes]]:
    entries: dict[str, dict[int, bytes]] = {}
    for path in directory.iterdir():
        if match := _ENTRY.fullmatch(path.name):
            entries.setdefault(match["hash"], {})[int(match["number"])] = path.read_bytes()
    return entries


def _arrange(directory: Path, name_hash: str, present: dict[int, bytes], pems: list[bytes]) -> None:
    """Keep existing certificates in the current order, then add new certificates. The file numbers have no gap."""
    staying = [present[number] for number in sorted(present) if present[number] in pems]
    final = list(dict.fromkeys(staying))
    final += [pem for pem in pems if pem not in final]
    for number, pem in enumerate(final):
        if present.get(number) != pem:
            _write(directory, f"{name_hash}.{number}", pem)
    # Delete the highest number first, so that a reader finds no gap.
    for number in sorted((number for number in present if number >= len(final)), reverse=True):
        (directory / f"{name_hash}.{number}").unlink()


def _write(directory: Path, name: str, pem: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY_PREFIX, dir=directory)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        # Readable by all users, because radiusd and the agent run as different users. Certificates are public.
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
    Path(temporary).replace(directory / name)


def _remove_leftovers(directory: Path) -> None:
    for path in directory.glob(f"{_TEMPORARY_PREFIX}*"):
        path.unlink()
