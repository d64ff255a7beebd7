"""Makes pool addresses ready in the cell, and turns claims of devices into leases."""
