from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509

from nac.kit.clock import utc_now
from pki.bundles import certificates_pem
from pki.issuance import Issuer, issue, issue_root
from pki.keys import PrivateKey, generate_key
from pki.names import San, subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial


@pytest.fixture(autouse=True)
def real_bundles(costs_in_use: None) -> None:
    """Derive keys of PKCS#12 files at the cost that the product uses."""


@dataclass(frozen=True)
class Chain:
    root: Issuer
    issuing: Issuer
    now: datetime

    def issue(
        self, profile: str, common_name: str, *sans: San, key: PrivateKey | None = None, **validity: datetime
    ) -> x509.Certificate:
        return issue(
            PROFILES[profile],
            public_key=(key or generate_key()).public_key(),
            subject=subject_name(common_name, organisation="Alpha"),
            sans=sans,
            issuer=self.issuing,
            now=self.now,
            serial=random_serial(),
            **validity,
        )

    def write(self, folder: Path, certificate: x509.Certificate) -> tuple[Path, Path, Path]:
        """Write files of the root, the issuing authority and the certificate."""
        files = folder / "root.pem", folder / "issuing.pem", folder / "certificate.pem"
        for file, member in zip(files, (self.root.certificate, self.issuing.certificate, certificate), strict=True):
            file.write_bytes(certificates_pem([member]))
        return files


@pytest.fixture(scope="session")
def chain() -> Chain:
    now = utc_now()
    root_key, issuing_key = generate_key(), generate_key()
    root = issue_root(
        PROFILES["root"],
        key=root_key,
        subject=subject_name("Alpha Root CA", organisation="Alpha", serial_number="alpha-1"),
        now=now,
        serial=random_serial(),
    )
    issuing = issue(
        PROFILES["issuing"],
        public_key=issuing_key.public_key(),
        subject=subject_name("Alpha Issuing CA", organisation="Alpha", serial_number="alpha-1"),
        issuer=Issuer(root, root_key),
        now=now,
        serial=random_serial(),
    )
    return Chain(Issuer(root, root_key), Issuer(issuing, issuing_key), now)
