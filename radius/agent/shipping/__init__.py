"""Ships the journal to PostgreSQL, updates sessions and other tables, and publishes live events."""
