"""The only Python that radiusd calls. A callback reads one replica and appends one journal record."""
