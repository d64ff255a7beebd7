"""Sends CoA and Disconnect requests to NASes (RFC 5176)."""
