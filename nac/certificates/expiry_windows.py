"""Times of expiry warnings."""

# Days before the expiry.
EXPIRY_WINDOW_DAYS = (60, 30, 14, 7, 1)
