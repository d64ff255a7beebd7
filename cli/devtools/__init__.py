"""Tools for development: linters, quick tests, generated pages and the documentation site."""
