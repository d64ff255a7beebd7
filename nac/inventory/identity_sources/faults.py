"""Faults of identity sources. Each class has a reason code (nac.engine.reasons). The message contains details for
administrators."""


class SourceFault(Exception):
    """Fault of an identity source. The message can contain user names and texts from servers, but never a password."""

    reason = "directory-refused"


class DirectoryUnavailable(SourceFault):
    """Admit cannot reach the source, or the source reports that it is out of service."""

    reason = "directory-unavailable"


class TooManyMemberships(SourceFault):
    """The user has more groups than one response can contain."""

    reason = "too-many-groups"


class DirectoryRefused(SourceFault):
    """The source's response is unusable: it is too large, malformed or not trustworthy, or rejects Admit's account."""
