"""The cell's radiusd: configuration, files, start, replacement, and watches of its health."""
