"""Why a provider signs nobody in. Each code is one that a page can show; docs/how-to/sign-in.md lists them."""

from nac.errors import AdmitError, Unavailable


class ProviderUnavailable(Unavailable):
    """The provider does not answer as it should."""


class ProviderRefused(AdmitError):
    """What the provider says does not sign you in."""

    status = 403


class ProviderDenied(ProviderRefused):
    """The provider has not let you in, or you have not agreed."""


class ClientRefused(ProviderRefused):
    """The provider does not take what Admit asks."""


class CodeRefused(ProviderRefused):
    """The provider does not take its own answer again."""


class WrongProvider(ProviderRefused):
    """The answer is of another provider."""


class IdTokenNotValid(ProviderRefused):
    """The provider's id_token does not hold."""


class EmailMissing(ProviderRefused):
    """The provider tells no e-mail address."""


class EmailNotVerified(ProviderRefused):
    """The provider does not say that the e-mail address is verified."""


class NoMemberHere(ProviderRefused):
    """You are no member here."""


class OwnerSuspended(ProviderRefused):
    """The MSP whose provider this is, is suspended."""


class AnotherSubject(ProviderRefused):
    """The provider has named this person by another account before."""
