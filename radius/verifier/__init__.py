"""The agent's process for passwords that the module cannot verify at once (docs/adr/0006)."""
