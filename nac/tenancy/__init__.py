"""MSPs, tenants, sites, cells, NASes and rotations of their secrets."""
