"""The openssl program, which checks results independently of Admit."""

import subprocess
from pathlib import Path


def openssl(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["openssl", *arguments], input=data, capture_output=True, check=False, timeout=30)


def answer(*arguments: str, data: bytes = b"") -> str:
    result = openssl(*arguments, data=data)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def verify(
    purpose: str, roots: Path, untrusted: Path, certificate: Path, *more: str
) -> subprocess.CompletedProcess[bytes]:
    files = ("-CAfile", str(roots), "-no-CApath", "-untrusted", str(untrusted), str(certificate))
    return openssl("verify", "-x509_strict", "-purpose", purpose, *more, *files)
