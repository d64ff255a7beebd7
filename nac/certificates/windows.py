"""Times of expiry warnings."""

# Days before the expiry.
WINDOWS = (60, 30, 14, 7, 1)
