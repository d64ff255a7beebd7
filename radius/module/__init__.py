"""The Python code that radiusd calls. A call reads the replica and appends one journal record."""
