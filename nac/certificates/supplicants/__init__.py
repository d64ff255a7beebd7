"""Network settings of a tenant's devices in the format of each operating system."""
