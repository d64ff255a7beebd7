"""Creation and deletion of tenants: trials, self-tests, snippets, templates, tenant files, imports, purges."""
