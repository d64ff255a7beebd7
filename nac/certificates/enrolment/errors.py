from typing import Literal

from nac.kit.errors import AdmitError, Conflict, Forbidden, InvalidInput, NotFound, Unavailable

RefusalReason = Literal[
    "unknown", "wrong-secret", "wrong-kind", "used", "expired", "revoked", "tenant-inactive", "holder-barred"
]


class InvalidEnrolmentSecret(InvalidInput):
    """The enrolment secret cannot be created with these values."""


class EnrolmentAddressNotFound(NotFound):
    """The enrolment URL does not exist."""


class EnrolmentSecretNotFound(NotFound):
    """The enrolment secret does not exist."""


class SecretRefused(AdmitError):
    """The secret is not accepted."""

    status = 401

    def __init__(self, why: RefusalReason) -> None:
        """Admit writes `why` only to the audit log, because a caller who guesses secrets must not learn the reason."""
        self.why: RefusalReason = why
        super().__init__("The secret is not accepted.", remedy="Ask your administrator for a new secret.")


class SecretNeeded(AdmitError):
    """A one-time secret is required."""

    status = 401

    def __init__(self) -> None:
        super().__init__(
            "A first enrolment needs a one-time secret, sent with HTTP Basic authentication.",
            remedy="Ask your administrator for a secret. For a renewal, use simplereenroll.",
        )


class TooManyGuesses(AdmitError):
    """Too many wrong secrets from this address."""

    status = 429

    def __init__(self, retry_after_seconds: int) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__("Too many wrong secrets from this address.", remedy="Try again in a few minutes.")


class AnswerUnderWay(Unavailable):
    """Admit is already processing this request."""

    retry_after_seconds = 1

    def __init__(self) -> None:
        super().__init__("Admit is already processing this request.", remedy="Try again in a second.")


class NameRefused(InvalidInput):
    """The request has a name that is not permitted."""


class RenewalRefused(Forbidden):
    """The certificate cannot be renewed."""


class RenewalKeepsKey(Conflict):
    """A renewal needs a new key."""
