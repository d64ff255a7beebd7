"""One-time links to certificates, for a person with a browser."""
