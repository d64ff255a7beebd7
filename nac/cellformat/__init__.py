"""Data formats that cells share with the rest of Admit: replica, journal, policy attributes, Class."""
