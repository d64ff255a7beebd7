"""SCEP (RFC 8894) for the devices of a tenant: its registration authority, challenges, transactions, webhook."""
