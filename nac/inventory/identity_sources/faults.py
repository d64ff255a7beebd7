"""Faults of identity sources. Each has a code of nac.engine.reasons; its message is the detail."""


class SourceFault(Exception):
    """Base class. Messages can contain names and texts of servers, never a password."""

    reason = "directory-refused"


class DirectoryUnavailable(SourceFault):
    """The source cannot be reached or reports that it is out of service."""

    reason = "directory-unavailable"


class TooManyMemberships(SourceFault):
    """The user has more groups than an answer can carry."""

    reason = "too-many-groups"


class DirectoryRefused(SourceFault):
    """The source's response is unusable: it rejects our account, or the response is too large, malformed or
    untrustworthy.
    """
