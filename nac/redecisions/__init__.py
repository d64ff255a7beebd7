"""Decides again about live sessions after a change of configuration."""
