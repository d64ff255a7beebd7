"""Texts of servers, cleaned before they are logged."""

import asyncio

import pytest

from nac.cellformat.identity_names import UserName
from nac.inventory.identity_sources.faults import DirectoryRefused
from nac.inventory.identity_sources.settings import OidcSettings
from nac.inventory.identity_sources.verification import verify_password
from nac.inventory.identity_sources.verifier_messages import VerificationResult

FORGED = "no\nWARNING tenant bravo, source corp: broken\x1b[2J\0"


class SourceWithText:
    settings = OidcSettings()

    def __init__(self, fails):
        self.fails = fails

    async def verify(self, name, password, tell):
        if self.fails:
            raise DirectoryRefused(FORGED)
        return VerificationResult("wrong-password", FORGED, "corp")


@pytest.mark.parametrize("fails", [False, True])
def test_server_text_becomes_one_printable_line(fails):
    answer = asyncio.run(verify_password(SourceWithText(fails), UserName("anna", "anna"), b"x", source_name="corp"))
    assert answer.reason == ("directory-refused" if fails else "wrong-password")
    assert answer.detail == "no WARNING tenant bravo, source corp: broken [2J "
