"""The mirror's name depends on the machine: these tests use documentation names (RFC 2606)."""

from pathlib import Path

import pytest

from cli.apt_sources import derive_backports, parse_deb822, parse_one_line, read_sources
from cli.errors import Refused

DEB822 = """\
Types: deb
# a comment inside the stanza
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""
FROM_DEB822 = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

CASES = {
    "deb822": (parse_deb822, DEB822, FROM_DEB822),
    "deb822 with a key inline": (
        parse_deb822,
        "Types: deb deb-src\nURIs: https://a.example/d\nSuites: bookworm\nComponents: main\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEY\n",
        "Types: deb\nURIs: https://a.example/d\nSuites: bookworm-backports\nComponents: main\n"
        "Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEY\n",
    ),
    "deb822 with two mirrors and an option": (
        parse_deb822,
        "Types: deb\nURIs: http://a.example/d http://b.example/d\nSuites: bookworm\nComponents: main\n"
        "Check-Valid-Until: no\n",
        "Types: deb\nURIs: http://a.example/d http://b.example/d\nSuites: bookworm-backports\nComponents: main\n"
        "Check-Valid-Until: no\n",
    ),
    "one line": (
        parse_one_line,
        "deb http://mirror.example/debian bookworm main contrib # the mirror\n",
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm-backports\nComponents: main\n",
    ),
    "one line with options": (
        parse_one_line,
        "deb [ arch=amd64,arm64 signed-by=/k.gpg check-valid-until=no ] http://mirror.example/debian bookworm main\n",
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm-backports\nComponents: main\n"
        "Architectures: amd64 arm64\nSigned-By: /k.gpg\nCheck-Valid-Until: no\n",
    ),
    "first of several that offers it": (
        parse_one_line,
        "deb http://other.example/x stable main\ndeb http://c.example/d bookworm contrib\n"
        "deb-src http://s.example/d bookworm main\n#deb http://off.example/d bookworm main\n"
        "deb http://right.example/d bookworm main\n",
        "Types: deb\nURIs: http://right.example/d\nSuites: bookworm-backports\nComponents: main\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_release_source_derives_backports(name: str):
    parse, text, expected = CASES[name]
    assert derive_backports(parse(text), "bookworm") == expected


@pytest.mark.parametrize(
    ("backports", "derived"),
    [
        (FROM_DEB822, None),
        ("Enabled: no\n" + FROM_DEB822, FROM_DEB822),
        (FROM_DEB822.replace("Components: main", "Components: contrib"), FROM_DEB822),
    ],
    ids=["existing", "disabled", "without main"],
)
def test_only_usable_backports_derive_nothing(backports: str, derived: str | None):
    assert derive_backports(parse_deb822(DEB822) + parse_deb822(backports), "bookworm") == derived


def test_other_release_is_rejected_with_a_remedy():
    with pytest.raises(Refused, match=r"bookworm main.*Add a source for bookworm-backports"):
        derive_backports(parse_deb822(DEB822.replace("bookworm", "trixie")), "bookworm")


def test_files_are_read_as_apt_reads_them(tmp_path: Path):
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (tmp_path / "sources.list").write_text("deb http://first.example/d bookworm main\n")
    (folder / "b.sources").write_text(DEB822)
    (folder / "a.list").write_text("deb http://a.example/d bookworm main\n")
    # apt ignores other suffixes, such as editors' backups.
    (folder / "a.list.bak").write_text("deb http://ignored.example/d bookworm main\n")
    uris = [source.uris[0] for source in read_sources(tmp_path)]
    assert uris == [
        "http://first.example/d",
        "http://a.example/d",
        "http://mirror.example/debian",
        "http://mirror.example/debian-security",
    ]
