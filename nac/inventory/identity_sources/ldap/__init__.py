"""A minimal LDAP client (RFC 4511) that searches for a user and binds as that user.

The client limits the size of each response. While a request waits for the server, it needs a socket, but no thread. The
client encodes each value separately, so a user name can never change the structure of a search filter.
"""
