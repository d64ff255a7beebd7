"""Parts of /openapi.json that routes do not define: words, permissions, headers, examples."""
