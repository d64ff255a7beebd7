"""When people are told of what ends."""

# Days before the end.
WINDOWS = (60, 30, 14, 7, 1)
