from nac.errors import AdmitError, InvalidInput, NotFound
from pki.scep import FailInfo


class ScepMessageDamaged(InvalidInput):
    """This is no SCEP message."""

    status = 400


class ScepRefused(AdmitError):
    """The request is refused."""

    # Told in the answer's failInfo, not by HTTP (RFC 8894 4.1).
    status = 200

    def __init__(self, fail_info: FailInfo, detail: str) -> None:
        self.fail_info: FailInfo = fail_info
        super().__init__(detail)


class InvalidScepWebhook(InvalidInput):
    """The webhook cannot be set as asked for."""


class ScepWebhookNotFound(NotFound):
    """The tenant has no SCEP webhook."""
