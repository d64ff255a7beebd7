from nac.kit.errors import AdmitError, Conflict, Forbidden, NotFound, Unavailable


class SignInRefused(AdmitError):
    """Sign-in failed."""

    status = 401


class SignInOver(AdmitError):
    """Your sign-in has ended."""

    status = 401


class TooLateToSignIn(SignInRefused):
    """The sign-in took too long."""


class SignOnNotBegun(SignInRefused):
    """This browser did not start this sign-in."""


class SignOnChanged(SignInRefused):
    """The single sign-on was changed in the meantime."""


class TooManyAttempts(AdmitError):
    """Too many failed attempts."""

    status = 429

    def __init__(self, seconds: int, *, remedy: str = "") -> None:
        super().__init__(f"Try again in {seconds} s.", remedy=remedy)
        self.retry_after_seconds = seconds


class PlaceNotKnown(TooManyAttempts):
    """Too many failed attempts for this e-mail address from unknown browsers."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            seconds,
            remedy="Use a browser in which you signed in before, or a passkey. Otherwise request a link by mail."
            " After you use the link, Admit knows this browser.",
        )


class TooManySignIns(Unavailable):
    """Too many people are signing in."""

    retry_after_seconds = 2


class AnotherIsSignedIn(Conflict):
    """This browser already has a sign-in of another person."""


class SecondFactorNeeded(Forbidden):
    """A sign-in with two factors is required."""


class SignOnNeeded(Forbidden):
    """Members of this MSP or tenant must use single sign-on."""


class SignOnNotProven(Conflict):
    """No member who can manage members has signed in with the provider's current settings."""


class ConfirmationNeeded(Forbidden):
    """You must confirm your identity first."""


class AccountOfAnother(Forbidden):
    """You cannot change the account, because you signed in with single sign-on."""


class LinkRefused(AdmitError):
    """The link is no longer valid."""

    status = 410


class SignInNotFound(NotFound):
    """The sign-in does not exist."""


class PasskeyNotFound(NotFound):
    """The passkey does not exist."""


class PasskeyRefused(AdmitError):
    """The passkey is not accepted."""

    status = 422


class TotpIsThere(Conflict):
    """The account already has an authenticator app."""
