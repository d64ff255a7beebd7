"""Creates and reads certificates, as DER, PEM or PKCS#12 bytes.

This package does not depend on tenants, database tables or HTTP.
"""
