"""The demo: two tenants, and a board that tries them with supplicants and NASes that we did not write."""
