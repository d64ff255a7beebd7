"""Passphrases of endpoints and of groups of them, which are shown to whoever has one made, once."""

from functools import cached_property

from pydantic import BaseModel, Field

from api.v1.inputs import Input
from nac.endpoints.passphrases import generate_passphrase


class GeneratedPassphrase(BaseModel):
    passphrase: str | None = Field(
        description="The passphrase that was made up, shown this once; null where one was given."
    )


class PassphraseInput(Input):
    passphrase: str | None = Field(None, max_length=63, description="8 to 63 characters; null: one is made up.")

    @cached_property
    def chosen(self) -> str:
        return generate_passphrase() if self.passphrase is None else self.passphrase

    def shown(self) -> GeneratedPassphrase:
        return GeneratedPassphrase(passphrase=self.chosen if self.passphrase is None else None)
