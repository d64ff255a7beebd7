from nac.kit.errors import AdmitError, InvalidInput, NotFound
from pki.scep import FailInfo


class ScepMessageDamaged(InvalidInput):
    """The request is not a valid SCEP message."""

    status = 400


class ScepRefused(AdmitError):
    """The SCEP request is rejected."""

    # SCEP reports failures in failInfo, not as HTTP status (RFC 8894 4.1).
    status = 200

    def __init__(self, fail_info: FailInfo, detail: str) -> None:
        self.fail_info: FailInfo = fail_info
        super().__init__(detail)


class InvalidScepWebhook(InvalidInput):
    """The webhook cannot be set with these values."""


class ScepWebhookNotFound(NotFound):
    """The tenant has no SCEP webhook."""
