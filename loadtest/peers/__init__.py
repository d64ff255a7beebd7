"""Peers of Admit: FreeRADIUS from the distribution, without and with PostgreSQL.

The configuration of a peer is in a temporary folder: small files, and links to files of the distribution. The peers do
not change the system's FreeRADIUS or PostgreSQL.
"""
