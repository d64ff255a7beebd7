"""What a device is: vendor by its address, profile by what it and its switch say of it. Reads packaged data alone."""
