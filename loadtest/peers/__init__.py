"""What Admit is measured against: FreeRADIUS as the distribution ships it, alone and with PostgreSQL behind it.

Their configurations are small files of our own that stand beside links into the distribution's tree, rendered into a
temporary folder. Nothing of the system's FreeRADIUS or PostgreSQL is touched.
"""
