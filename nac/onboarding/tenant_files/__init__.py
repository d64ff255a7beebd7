"""Tenant files: export of a tenant to a file, and creation of a tenant from a file (docs/how-to/tenants.md)."""
