"""The demo: two tenants, and checks with supplicants and NASes from other projects.

The board is the table of results.
"""
