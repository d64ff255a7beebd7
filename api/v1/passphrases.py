"""Passphrases of endpoints and of groups of them, which are shown to whoever has one made, once."""

from functools import cached_property

from pydantic import BaseModel, Field

from api.v1.inputs import Input
from nac.endpoints.passphrases import generate_passphrase


class GeneratedPassphrase(BaseModel):
    # The one that was made up; null where it was given.
    passphrase: str | None


class PassphraseInput(Input):
    # 8 to 63 printable characters of ASCII; null: one is made up.
    passphrase: str | None = Field(None, max_length=63)

    @cached_property
    def chosen(self) -> str:
        return generate_passphrase() if self.passphrase is None else self.passphrase

    def shown(self) -> GeneratedPassphrase:
        return GeneratedPassphrase(passphrase=self.chosen if self.passphrase is None else None)
