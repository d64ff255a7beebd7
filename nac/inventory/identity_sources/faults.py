"""Faults of identity sources. Each class has a code of nac.engine.reasons. The message contains further information
for administrators."""


class SourceFault(Exception):
    """Fault of an identity source. Messages can contain names and texts of servers, never a password."""

    reason = "directory-refused"


class DirectoryUnavailable(SourceFault):
    """Admit cannot reach the source, or the source reports that it is out of service."""

    reason = "directory-unavailable"


class TooManyMemberships(SourceFault):
    """The user has more groups than one response can carry."""

    reason = "too-many-groups"


class DirectoryRefused(SourceFault):
    """The source's response is unusable: too large, malformed, untrustworthy, or a rejection of Admit's account."""
