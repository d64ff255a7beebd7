from typing import Literal

from nac.errors import AdmitError, Conflict, Forbidden, InvalidInput, NotFound, Unavailable

Why = Literal["unknown", "wrong-secret", "wrong-kind", "used", "expired", "revoked", "tenant-inactive", "holder-barred"]


class InvalidEnrolmentSecret(InvalidInput):
    """An enrolment secret cannot be made as asked for."""


class EnrolmentAddressNotFound(NotFound):
    """There is no such address."""


class EnrolmentSecretNotFound(NotFound):
    """There is no such enrolment secret."""


class SecretRefused(AdmitError):
    """The secret is not accepted."""

    status = 401

    def __init__(self, why: Why) -> None:
        """`why` is for the audit log: whoever guesses learns nothing from it."""
        self.why: Why = why
        super().__init__("The secret is not accepted.", remedy="Ask your administrator for a new one.")


class SecretNeeded(AdmitError):
    """A one-time secret is needed."""

    status = 401

    def __init__(self) -> None:
        super().__init__(
            "A first enrolment shows a one-time secret, by HTTP basic authentication.",
            remedy="Ask your administrator for one; a renewal goes to simplereenroll.",
        )


class TooManyGuesses(AdmitError):
    """Too many secrets were refused from this address."""

    status = 429

    def __init__(self, retry_after_seconds: int) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__("Too many secrets were refused from this address.", remedy="Wait some minutes.")


class AnswerUnderWay(Unavailable):
    """The same request came before and is being answered."""

    retry_after_seconds = 1

    def __init__(self) -> None:
        super().__init__("The same request came before and is being answered.", remedy="Send it again in a second.")


class NameRefused(InvalidInput):
    """The request names somebody whom it may not name."""


class RenewalRefused(Forbidden):
    """The certificate cannot be renewed."""


class RenewalKeepsKey(Conflict):
    """A renewal needs a new key."""
