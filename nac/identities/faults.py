"""Why a source could not say whether a password is right: each a reason of nac.reasons, its message the detail."""


class SourceFault(Exception):
    """Its messages name servers and say what they said; never a password."""

    reason = "directory-refused"


class DirectoryUnavailable(SourceFault):
    """It cannot be reached, or says that it is out of service."""

    reason = "directory-unavailable"


class TooManyGroups(SourceFault):
    """The user's, of whom no answer could tell."""

    reason = "too-many-groups"


class DirectoryRefused(SourceFault):
    """It answers, but not so that an answer could be trusted: our account, its size, its form, its truth."""
