from cli.main import admit

admit(prog_name="admit")
