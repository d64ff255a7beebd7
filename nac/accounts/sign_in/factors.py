"""Factors of a sign-in, and whether they count as two. Pure."""

from collections.abc import Collection
from enum import StrEnum, unique


@unique
class Factor(StrEnum):
    PASSWORD = "password"  # noqa: S105 -- a name
    TOTP = "totp"
    RECOVERY_CODE = "recovery-code"
    # Unlocked with PIN or biometrics: two factors in one (NIST SP 800-63B 5.1.9).
    PASSKEY = "passkey"
    # Only touched: one factor.
    SECURITY_KEY = "security-key"
    # Single sign-on by a provider ...
    SIGN_ON = "sign-on"
    # ... that reports two factors.
    SIGN_ON_TWO = "sign-on-two"


# Factors that count as the second.
SECOND_FACTORS = frozenset({Factor.TOTP, Factor.RECOVERY_CODE, Factor.SECURITY_KEY})


def has_two_factors(shown: Collection[str]) -> bool:
    if Factor.PASSKEY in shown or Factor.SIGN_ON_TWO in shown:
        return True
    return Factor.PASSWORD in shown and not SECOND_FACTORS.isdisjoint(shown)
