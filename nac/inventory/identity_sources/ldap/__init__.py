"""A minimal LDAP client (RFC 4511) that finds a user and binds as it.

It bounds the size of each response and the time of a login. A waiting login costs a socket, not a thread. Values enter
requests as encoded values, never as filter text.
"""
