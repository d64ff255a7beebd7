"""Decides live sessions again after a change."""
