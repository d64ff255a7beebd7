"""Device profiling: Admit derives the vendor from the MAC address, and the device profile from evidence."""
