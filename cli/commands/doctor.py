"""`./admit doctor`: checks of this machine, with a remedy for each problem."""

import click

from cli.diagnosis import Diagnosis, run_diagnosis

_MARKS = {
    "ok": click.style("ok  ", fg="green"),
    "warn": click.style("warn", fg="yellow"),
    "fail": click.style("FAIL", fg="red"),
}


@click.command()
@click.pass_context
def command(ctx: click.Context) -> None:
    """Check packages, versions, accounts, ports, clock and disk. Exit status 1 if a check fails."""
    findings = run_diagnosis()
    for finding in findings:
        _show(finding)
    ctx.exit(1 if any(finding.verdict == "fail" for finding in findings) else 0)


def _show(finding: Diagnosis) -> None:
    click.echo(f"{_MARKS[finding.verdict]}  {finding.subject:<12} {finding.what}")
    if finding.remedy:
        click.echo(f"{'':19}{finding.remedy}")
