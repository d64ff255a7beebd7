"""Merges accounting into sessions and ends silent ones."""
