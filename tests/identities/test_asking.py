"""Texts from servers, before they reach logs."""

import asyncio

import pytest

from nac.identities.faults import DirectoryRefused
from nac.identities.names import UserName
from nac.identities.settings import OidcSettings
from nac.identities.verification import verify_password
from nac.identities.verifier_messages import VerificationResult

FORGED = "no\nWARNING tenant bravo, source corp: broken\x1b[2J\0"


class Telling:
    settings = OidcSettings()

    def __init__(self, fails):
        self.fails = fails

    async def verify(self, name, password, tell):
        if self.fails:
            raise DirectoryRefused(FORGED)
        return VerificationResult("wrong-password", FORGED, "corp")


@pytest.mark.parametrize("fails", [False, True])
def test_server_text_becomes_one_printable_line(fails):
    answer = asyncio.run(verify_password(Telling(fails), UserName("anna", "anna"), b"x", source_name="corp"))
    assert answer.reason == ("directory-refused" if fails else "wrong-password")
    assert answer.detail == "no WARNING tenant bravo, source corp: broken [2J "
