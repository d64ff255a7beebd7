"""Passphrases of endpoints and groups. A generated one is returned once."""

from functools import cached_property

from pydantic import BaseModel, Field

from api.v1.inputs import Input
from nac.inventory.endpoints.passphrases import generate_passphrase


class GeneratedPassphrase(BaseModel):
    passphrase: str | None = Field(description="Generated passphrase, only in this response; null if you set one.")


class PassphraseInput(Input):
    passphrase: str | None = Field(
        None, max_length=63, description="Passphrase, 8 to 63 characters; null to generate one."
    )

    @cached_property
    def chosen(self) -> str:
        return generate_passphrase() if self.passphrase is None else self.passphrase

    def shown(self) -> GeneratedPassphrase:
        return GeneratedPassphrase(passphrase=self.chosen if self.passphrase is None else None)
