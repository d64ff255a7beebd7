"""SCEP (RFC 8894) for a tenant's devices: registration authority, challenges, transactions, webhook."""
