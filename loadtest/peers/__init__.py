"""Peers of Admit: FreeRADIUS from the distribution, without and with PostgreSQL.

The configurations are small files and links into the distribution's tree, rendered into a temporary folder. The peers
do not change the system's FreeRADIUS or PostgreSQL.
"""
