"""Ships the journal to PostgreSQL, with its effects, and publishes live events."""
