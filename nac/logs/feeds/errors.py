from nac.kit.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Unavailable


class InvalidFeed(InvalidInput):
    """The settings of the feed are not valid."""


class FeedNotFound(NotFound):
    """The feed does not exist."""


class FeedExists(AlreadyExists):
    """A feed with this name already exists."""


class TooManyFeeds(Conflict):
    """The tenant has reached the maximum number of feeds."""


class FeedUnreachable(Unavailable):
    """The feed's destination did not receive the events."""


class ReplayUnderWay(Conflict):
    """A replay of the feed is already running."""
