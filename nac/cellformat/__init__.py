"""Formats that cells share with the rest of Admit: replica, journal, values of a packet, the Class attribute."""
