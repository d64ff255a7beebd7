"""Policies: drafts, checks, publication, simulation and replay."""
