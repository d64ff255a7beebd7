"""Jobs, named `noun.verb`, a file per noun. Each may run twice: acknowledgement comes after the work."""
