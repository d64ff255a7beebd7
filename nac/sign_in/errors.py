from nac.errors import AdmitError, Conflict, Forbidden, NotFound, Unavailable


class SignInRefused(AdmitError):
    """This does not sign you in."""

    status = 401


class SignInOver(AdmitError):
    """You are not signed in any more."""

    status = 401


class TooLateToSignIn(SignInRefused):
    """It took too long."""


class SignOnNotBegun(SignInRefused):
    """This browser has not begun this sign-in."""


class SignOnChanged(SignInRefused):
    """The single sign-on has been changed meanwhile."""


class TooManyAttempts(AdmitError):
    """Too many attempts did not succeed."""

    status = 429

    def __init__(self, seconds: int, *, remedy: str = "") -> None:
        super().__init__(f"The next one is looked at in {seconds} s.", remedy=remedy)
        self.retry_after_seconds = seconds


class PlaceNotKnown(TooManyAttempts):
    """Too many have tried this address from elsewhere."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            seconds,
            remedy="A browser that you have signed in with before is not held up, nor is a passkey. Else ask for a link"
            " by mail: it makes this browser one of yours.",
        )


class TooManySignIns(Unavailable):
    """Very many sign in at this moment."""

    retry_after_seconds = 2


class AnotherIsSignedIn(Conflict):
    """In this browser somebody else is signed in."""


class SecondFactorNeeded(Forbidden):
    """This takes a sign-in with two factors."""


class SignOnNeeded(Forbidden):
    """Members come in here by their organisation's provider."""


class SignOnNotProven(Conflict):
    """Nobody who manages members has come in by the provider as it is set up now."""


class ConfirmationNeeded(Forbidden):
    """Show anew that it is you."""


class AccountOfAnother(Forbidden):
    """Who signed in by an organisation's provider does not change the account."""


class LinkRefused(AdmitError):
    """This link is not valid any more."""

    status = 410


class SignInNotFound(NotFound):
    """There is no such sign-in."""


class PasskeyNotFound(NotFound):
    """There is no such passkey."""


class PasskeyRefused(AdmitError):
    """This passkey is not accepted."""

    status = 422


class TotpIsThere(Conflict):
    """There is an authenticator app already."""
