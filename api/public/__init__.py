"""What anybody may ask, over plain HTTP: no route of the API, no cookie, no session."""
