"""Parts of /openapi.json that routes do not define: summaries, permissions, headers, allowed values and examples."""
