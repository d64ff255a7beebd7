"""API tokens as text."""

from typing import ClassVar

from nac.kit.bearer_secret import BearerSecret


class TokenText(BearerSecret):
    """`admit_<public id>_<secret>`, a form that secret scanners can recognise."""

    __slots__ = ()
    prefix: ClassVar[str] = "admit_"
    separator: ClassVar[str] = "_"
    purpose: ClassVar[bytes] = b"admit api token 1\0"
