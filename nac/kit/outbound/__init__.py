"""Connections to servers that tenants configure: the permitted addresses, and an HTTP client that uses only
permitted addresses."""
