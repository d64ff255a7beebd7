import os
import stat
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from pki.bundles import certificates_pem
from pki.hash_directory import write_authorities
from pki.issuance import issue_root
from pki.keys import generate_key
from pki.names import subject_name
from pki.openssl_names import subject_hash
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.pki.conftest import Chain
from tests.pki.openssl import openssl
from tests.run_depth import examples


@pytest.fixture(scope="module")
def same_name(chain: Chain) -> list[x509.Certificate]:
    """Four authorities with one name, as after renewals."""
    return [
        issue_root(
            PROFILES["root"], key=generate_key(), subject=subject_name("Twin"), now=chain.now, serial=random_serial()
        )
        for _ in range(4)
    ]


def _content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_openssl_finds_the_written_authorities(chain, tmp_path):
    write_authorities(tmp_path / "ca", [chain.root.certificate, chain.issuing.certificate])
    certificate = tmp_path / "device.pem"
    certificate.write_bytes(certificates_pem([chain.issue("eap-client-device", "laptop 1")]))
    found = openssl("verify", "-CApath", str(tmp_path / "ca"), "-no-CAfile", "-purpose", "sslclient", str(certificate))
    assert found.returncode == 0, found.stderr
    write_authorities(tmp_path / "ca", [chain.root.certificate])
    found = openssl("verify", "-CApath", str(tmp_path / "ca"), "-no-CAfile", "-purpose", "sslclient", str(certificate))
    assert found.returncode != 0


def test_files_are_readable_by_radiusd_and_others_are_kept(chain, tmp_path):
    (tmp_path / "README").write_text("kept")
    (tmp_path / "12345678.r0").write_text("a CRL, kept")
    (tmp_path / ".authority-cut-off").write_text("of a writer that was killed")
    (tmp_path / "ffffffff.0").write_text("stale")
    write_authorities(tmp_path, [chain.root.certificate, chain.root.certificate])
    name = f"{subject_hash(chain.root.certificate)}.0"
    assert {path.name for path in tmp_path.iterdir()} == {"README", "12345678.r0", name}
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o644


def test_unchanged_set_writes_nothing(chain, tmp_path):
    authorities = [chain.root.certificate, chain.issuing.certificate]
    write_authorities(tmp_path, authorities)
    before = {path.name: os.stat(path).st_ino for path in tmp_path.iterdir()}
    write_authorities(tmp_path, reversed(authorities))
    assert {path.name: os.stat(path).st_ino for path in tmp_path.iterdir()} == before


def test_renewed_authority_gets_a_later_index_than_the_old_one(same_name, tmp_path):
    old, new = same_name[:2]
    name_hash = subject_hash(old)
    write_authorities(tmp_path, [old])
    write_authorities(tmp_path, [new, old])
    assert _content(tmp_path) == {f"{name_hash}.0": certificates_pem([old]), f"{name_hash}.1": certificates_pem([new])}
    write_authorities(tmp_path, [new])
    assert _content(tmp_path) == {f"{name_hash}.0": certificates_pem([new])}


@given(steps=st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=5))
@settings(max_examples=examples(30), deadline=None)
def test_any_sequence_of_sets_ends_with_the_last_without_gaps(same_name, tmp_path_factory, steps):
    directory = tmp_path_factory.mktemp("hashdir")
    for step in steps:
        write_authorities(directory, [same_name[index] for index in step])
    content = _content(directory)
    assert sorted(content.values()) == sorted(certificates_pem([same_name[index]]) for index in set(steps[-1]))
    assert set(content) == {f"{subject_hash(same_name[0])}.{number}" for number in range(len(content))}
