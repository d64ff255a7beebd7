"""As much of LDAP (RFC 4511) as it takes to look a user up and bind as it.

Of our own, because each answer is bounded in size and the whole login in time, a login that waits costs a socket and no
thread, and values enter requests as values: no name is ever pasted into the text of a filter.
"""
