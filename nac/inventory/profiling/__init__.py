"""Device profiling: vendor by address, profile by evidence from the device and its switch. Reads only packaged data."""
