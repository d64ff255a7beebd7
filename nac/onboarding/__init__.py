"""Provisioning and deletion of tenants and MSPs.

The package also has trials, self-tests, snippets, templates, tenant files and imports.
"""
