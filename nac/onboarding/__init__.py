"""New and leaving tenants: trials, self-tests, snippets, templates, tenant files, imports, purges."""
