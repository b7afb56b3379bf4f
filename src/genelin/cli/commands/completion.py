"""`genelin completion`: the script that completes commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command(short_help="Print the script that completes commands in your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and files in SHELL.

    \b
    bash:  genelin completion bash >> ~/.bashrc
    zsh:   genelin completion zsh >> ~/.zshrc
    fish:  genelin completion fish > ~/.config/fish/completions/genelin.fish
    """  # noqa: D301 - a backspace, which keeps lines as they are
    from genelin.cli.app import app

    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - click knows all three
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(app, {}, "genelin", "_GENELIN_COMPLETE").source())
