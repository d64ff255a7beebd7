"""Connections to servers that customers configure: permitted addresses, and HTTP limited to them."""
