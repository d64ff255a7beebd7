"""What somebody has shown in order to sign in, and whether it is enough. Pure."""

from collections.abc import Collection
from enum import StrEnum, unique


@unique
class Factor(StrEnum):
    PASSWORD = "password"  # noqa: S105 -- a name
    TOTP = "totp"
    RECOVERY_CODE = "recovery-code"
    # Held, and unlocked by PIN or body: two factors in one (NIST SP 800-63B 5.1.9).
    PASSKEY = "passkey"
    # Held, and no more than touched.
    SECURITY_KEY = "security-key"
    # An organisation's provider says so, ...
    SIGN_ON = "sign-on"
    # ... and that it asked for two factors.
    SIGN_ON_TWO = "sign-on-two"


# Each in place of the second factor.
SECOND_FACTORS = frozenset({Factor.TOTP, Factor.RECOVERY_CODE, Factor.SECURITY_KEY})


def has_two_factors(shown: Collection[str]) -> bool:
    if Factor.PASSKEY in shown or Factor.SIGN_ON_TWO in shown:
        return True
    return Factor.PASSWORD in shown and not SECOND_FACTORS.isdisjoint(shown)
