"""The demo: two tenants, and checks with independent supplicants and NASes. The board is the table of results."""
