"""Creates and reads certificates, as DER, PEM or PKCS#12 bytes. Knows no tenants, tables or HTTP."""
