"""Tenant files: export of a tenant, and creation of a tenant from one. See docs/how-to/tenants.md."""
