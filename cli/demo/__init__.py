"""The demo: two tenants, and a board of checks with independent supplicants and NASes."""
