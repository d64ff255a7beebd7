"""What /openapi.json says that no route has to: words, permissions, headers, closed sets, examples."""
