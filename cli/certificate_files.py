"""Writes an issued certificate to files in a folder. Only the owner can read the key; existing files stay."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cli.errors import Refused
from nac.certificates.service import IssuedCertificate, build_pem_files, build_pkcs12_file

_SUFFIXES = {
    "key": ".key",
    "cert": ".pem",
    "chain": ".chain.pem",
    "ca": ".ca.pem",
    "p12": ".p12",
    "password": ".p12-password",
}
_PRIVATE = ("key", "p12", "password")


@contextmanager
def prepare_certificate_files(folder: Path, name: str) -> Iterator["CertificateFiles"]:
    """Handout for a certificate. If the block fails, deletes the folders that it created."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield CertificateFiles(folder, name)
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


class CertificateFiles:
    """Files of one certificate. Created before the certificate, so that errors prevent its issue."""

    def __init__(self, folder: Path, name: str) -> None:
        stem = re.sub(r"[^A-Za-z0-9._@-]+", "-", name).strip("-.") or "certificate"
        self._paths = {kind: folder / f"{stem}{suffix}" for kind, suffix in _SUFFIXES.items()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise Refused(f"Cannot create the folder: {exc.strerror}.", place=str(folder)) from exc
        if not os.access(folder, os.W_OK):
            raise Refused("No permission to write to the folder.", place=str(folder))
        if taken := [str(path) for path in self._paths.values() if path.exists()]:
            raise Refused(f"These files exist: {', '.join(taken)}.", place=str(folder), remedy="Use another folder.")

    def write(self, issued: IssuedCertificate, *, password: str | None, legacy: bool) -> dict[str, str]:
        """Write the files and return paths by kind. Without a password, the PKCS#12 file gets a random one in its own
        file.
        """
        files = build_pem_files(issued)
        if issued.key is not None:
            if password is None:
                password = secrets.token_urlsafe(15)
                files["password"] = f"{password}\n".encode()
            files["p12"] = build_pkcs12_file(issued, password=password, legacy=legacy)
        for kind, content in files.items():
            mode = 0o600 if kind in _PRIVATE else 0o644
            with os.fdopen(os.open(self._paths[kind], os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
        return {kind: str(self._paths[kind]) for kind in files}
