"""`./admit`: everything a person does on the machine that runs Admit."""
