from nac.errors import AdmitError


class SecretsError(AdmitError):
    """A secret cannot be sealed or opened."""


class KeyFileRefused(SecretsError):
    """A master key file cannot be used."""


class SealedValueMalformed(SecretsError):
    """A sealed value is truncated or of an unknown format."""


class SealedForAnotherKey(SecretsError):
    """A value was sealed with a master key that is not at hand."""


class SealedValueRefused(SecretsError):
    """A sealed value was altered, or belongs to another place."""
