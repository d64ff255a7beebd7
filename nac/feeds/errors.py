from nac.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Unavailable


class InvalidFeed(InvalidInput):
    """The feed's settings are not valid."""


class FeedNotFound(NotFound):
    """There is no such feed."""


class FeedExists(AlreadyExists):
    """There is a feed of this name already."""


class TooManyFeeds(Conflict):
    """The tenant has as many feeds as it may have."""


class FeedUnreachable(Unavailable):
    """What was sent to the feed's destination did not arrive."""


class ReplayUnderWay(Conflict):
    """The feed is sent something again already."""
