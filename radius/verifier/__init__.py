"""Process of the agent for passwords that take too long to verify inside radiusd (docs/adr/0006)."""
