"""Commands of the command line, run in this process."""

from typer.testing import CliRunner

from lemmax.cli.app import app

runner = CliRunner()


def run(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments])


def output_of(exit_code, *arguments):
    """What a command prints that ends with an exit code, its lines joined."""
    result = run(*arguments)
    assert result.exit_code == exit_code, result.output
    return " ".join(result.output.split())


def refusal_of(*arguments):
    return output_of(2, *arguments)
