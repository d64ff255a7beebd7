"""Devices and users of a tenant: endpoints, groups, profiling, users, identity sources."""
