from nac.kit.errors import AdmitError


class SecretsError(AdmitError):
    """A secret cannot be sealed or opened."""


class KeyFileRefused(SecretsError):
    """The master key file cannot be used."""


class SealedValueMalformed(SecretsError):
    """The sealed value is truncated or has an unknown format."""


class SealedForAnotherKey(SecretsError):
    """The value was sealed with another master key."""


class SealedValueRefused(SecretsError):
    """The sealed value was changed, or belongs to another row."""
