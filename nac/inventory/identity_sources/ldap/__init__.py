"""A minimal LDAP client (RFC 4511) that searches for a user and binds as that user.

The client bounds the size of each response and the time of a login. A waiting login needs a socket, but no thread.
Values are encoded separately, so a value can never change a filter.
"""
