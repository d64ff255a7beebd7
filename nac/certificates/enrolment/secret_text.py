"""One-time secrets as text."""

from typing import ClassVar

from nac.kit.bearer_secret import BearerSecret


class EnrolmentSecretText(BearerSecret):
    """`<public id>-<secret>`."""

    __slots__ = ()
    purpose: ClassVar[bytes] = b"admit enrolment secret 1\0"
