"""Formats that the cell shares with the domain: replica, journal, values of a packet, the Class attribute."""
