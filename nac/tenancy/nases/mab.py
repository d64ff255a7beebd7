"""MAB password: the password that a NAS sends when it authenticates a device by its MAC address."""

from typing import Literal, get_args

from nac.cellformat.replica.records import mab_password_context
from nac.kit.errors import InvalidInput
from nac.kit.sealing import Seal
from nac.models import Nas

# The NAS sends as password: the MAC address, a fixed text, the RADIUS secret, or an empty text.
MabPassword = Literal["mac", "fixed", "secret", "empty"]
MAB_PASSWORD_FORMS: tuple[str, ...] = get_args(MabPassword)
# Maximum length of a User-Password (RFC 2865 5.2).
_MAX_OCTETS = 128


def set_mab_password(nas: Nas, *, form: str | None, text: str | None, seal: Seal) -> None:
    """Set the form (`MabPassword`) and the text of the MAB password. None leaves the stored form or text unchanged.

    Raises InvalidInput.
    """
    if form is None and text is None:
        return
    form = require_mab_password_form(nas.mab_password if form is None else form)
    if form != "fixed" and text is not None:
        raise InvalidInput(
            "Only a MAB password of the form `fixed` has a text.",
            place="mab_password_text",
            remedy="Set mab_password to fixed, or remove mab_password_text.",
        )
    if form == "fixed" and text is None and nas.mab_password_sealed is None:
        raise InvalidInput(
            "A MAB password of the form `fixed` needs a text.",
            place="mab_password_text",
            remedy="Set mab_password_text to the password that the NAS sends.",
        )
    nas.mab_password = form
    if form != "fixed":
        nas.mab_password_sealed = None
    elif text is not None:
        nas.mab_password_sealed = seal(_require_text(text).encode(), mab_password_context(nas.id))


def require_mab_password_form(form: str) -> str:
    if form not in MAB_PASSWORD_FORMS:
        raise InvalidInput(
            f"Unknown MAB password {form[:40]!r}.",
            place="mab_password",
            remedy=f"Use one of: {', '.join(MAB_PASSWORD_FORMS)}.",
        )
    return form


def _require_text(text: str) -> str:
    if not text or not text.isprintable() or len(text.encode()) > _MAX_OCTETS:
        raise InvalidInput(
            "Invalid MAB password.",
            place="mab_password_text",
            remedy=f"Use 1 to {_MAX_OCTETS} octets of printable text.",
        )
    return text
