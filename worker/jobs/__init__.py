"""The jobs, named `noun.verb`, a file per noun. Each may be run twice: acknowledgement comes after the work."""
