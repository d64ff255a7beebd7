"""The way out to servers that customers name: where the platform connects to, and HTTP that goes nowhere else."""
