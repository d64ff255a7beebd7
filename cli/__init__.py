"""`./admit`: the command line for the machine that runs Admit."""
