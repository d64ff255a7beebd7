"""Formats that the cell and the domain share: replica, journal, values of a packet, the Class attribute."""
