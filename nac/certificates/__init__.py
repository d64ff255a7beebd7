"""A tenant's authorities and the certificates they issue."""
