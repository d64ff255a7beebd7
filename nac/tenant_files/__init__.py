"""All of a tenant as one file, and a tenant made of such a file: docs/how-to/tenants.md says what is in it."""
