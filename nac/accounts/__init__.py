"""People and their access: members, roles, API tokens, sign-in, single sign-on."""
