"""The agent's side process that checks passwords which the module cannot check at once (docs/adr/0006)."""
