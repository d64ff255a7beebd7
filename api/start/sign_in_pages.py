"""Pages that sign in. The forms work without a script; only passkeys need one."""

from collections.abc import Collection
from http import HTTPStatus
from pathlib import Path

from fastapi import Response

from api.pages import render_page

PASSKEY_SCRIPT_PATH = "/sign-in/passkey.js"
PASSKEY_SCRIPT = Path(__file__).with_name("passkey.js").read_text(encoding="utf-8")
_CODE_LABELS = {"totp": "Code from your authenticator app", "recovery-code": "Or one of your recovery codes"}


def render_sign_in(
    *,
    trials: bool,
    email: str = "",
    wrong: str = "",
    company: str = "",
    company_wrong: str = "",
    status: int = HTTPStatus.OK,
) -> Response:
    """Sign-in page. `trials` adds a link to the sign-up; `company_wrong` is the error of the company's form."""
    return render_page(
        "sign-in/form.html",
        status=status,
        script=PASSKEY_SCRIPT_PATH,
        trials=trials,
        email=email,
        wrong=wrong,
        company=company,
        company_wrong=company_wrong,
    )


def render_second_factor(
    methods: Collection[str], *, challenge: str, wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    """One form for each method that needs no script, and a button for a passkey.

    After an error the page still offers all methods: without the phone, a recovery code works.
    """
    offered = [method for method in (*_CODE_LABELS, "passkey") if method in methods]
    return render_page(
        "sign-in/second-factor.html",
        status=status,
        script=PASSKEY_SCRIPT_PATH if "passkey" in offered else "",
        methods=offered,
        codes=[(method, label) for method, label in _CODE_LABELS.items() if method in offered],
        challenge=challenge,
        wrong=wrong,
    )
