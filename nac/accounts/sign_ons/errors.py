"""Errors of single sign-on. docs/how-to/sign-in.md lists the codes of these errors, which the portal can show."""

from nac.kit.errors import AdmitError, Unavailable


class ProviderUnavailable(Unavailable):
    """The provider is unavailable or sent an invalid response."""


class ProviderRefused(AdmitError):
    """Single sign-on failed."""

    status = 403


class ProviderDenied(ProviderRefused):
    """The provider denied access, or you did not consent."""


class ClientRefused(ProviderRefused):
    """The provider rejected Admit's request."""


class CodeRefused(ProviderRefused):
    """The provider rejected the authorization code of this sign-in."""


class WrongProvider(ProviderRefused):
    """The response does not come from the provider of this sign-in."""


class IdTokenNotValid(ProviderRefused):
    """The provider's id_token is invalid."""


class EmailMissing(ProviderRefused):
    """The provider sent no e-mail address."""


class EmailNotVerified(ProviderRefused):
    """The provider did not verify the e-mail address."""


class NoMemberHere(ProviderRefused):
    """You are not a member of this MSP or tenant."""


class OwnerSuspended(ProviderRefused):
    """The MSP of this provider is suspended."""


class AnotherSubject(ProviderRefused):
    """The account of this person at the provider differs from the account at earlier sign-ins."""
