"""Corrected copies of FreeRADIUS modules that have a known memory fault (docs/adr/0018).

Admit corrects a file only if the checksum of the file is known. So files of other builds stay unchanged. radiusd finds
the copies before the distribution's files (`libdir` in radiusd.conf).
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from nac.kit.advice import Advice, NextStep
from radius.agent.alarms import Alarms

# Directory of Debian's module files. radiusd loads the corrected copies instead.
DISTRIBUTION_FOLDER = Path("/usr/lib/freeradius")


@dataclass(frozen=True, slots=True)
class LibraryCorrection:
    file: str
    # Checksum of the original file, and the Debian package that contains it.
    sha256: str
    package: str
    # Position of the change in the file, the old bytes and the new bytes.
    offset: int
    before: bytes
    after: bytes


# Inside the tunnel, rlm_eap_ttls frees the previous attribute when it meets an unknown attribute. Then rlm_eap_ttls
# uses the freed attribute (diameter2vp in ttls.c of 3.2.7 to 3.2.9). Any device that may begin EAP-TTLS can crash
# radiusd or block a thread forever. The corrected jump skips the free.
CORRECTIONS = (
    LibraryCorrection(
        "rlm_eap_ttls.so",
        "237fb92e70c5824d8e9aea3faf52b521f562199f9e2adfe28b2472ff9128fd39",
        "freeradius 3.2.7+dfsg-1~bpo12+1 (amd64)",
        0x3734,
        b"\xc1",
        b"\xcd",
    ),
)
_FILES = sorted({each.file for each in CORRECTIONS})


def write_corrected_libraries(target: Path, source: Path = DISTRIBUTION_FOLDER) -> None:
    """Write the corrected files into the new folder `target`."""
    target.mkdir(mode=0o700)
    for name in _FILES:
        content = _correct_library(source / name)
        if content:
            (target / name).write_bytes(content)
            os.chmod(target / name, 0o500)


def list_uncorrected_libraries(source: Path = DISTRIBUTION_FOLDER) -> tuple[str, ...]:
    """List the files that may have the fault, because Admit does not know their build and cannot correct them."""
    return tuple(name for name in _FILES if not _correct_library(source / name))


def alarm_uncorrected_libraries(alarms: Alarms, source: Path = DISTRIBUTION_FOLDER) -> None:
    packages = " or ".join(sorted({each.package for each in CORRECTIONS}))
    for name in list_uncorrected_libraries(source):
        alarms.report(
            f"uncorrected-library:{name}",
            Advice(
                f"{name} of this FreeRADIUS may have a memory fault by which a device can crash radiusd. Admit has no "
                f"correction for this build. Install {packages} (docs/adr/0018-corrected-copies-of-modules.md), or "
                "turn EAP-TTLS off.",
                NextStep("updateTenant", {"methods": ""}),
            ),
        )


def _correct_library(original: Path) -> bytes:
    try:
        content = original.read_bytes()
    except OSError:
        return b""
    digest = hashlib.sha256(content).hexdigest()
    for each in CORRECTIONS:
        end = each.offset + len(each.before)
        if (each.file, each.sha256) == (original.name, digest) and content[each.offset : end] == each.before:
            return content[: each.offset] + each.after + content[end:]
    return b""
