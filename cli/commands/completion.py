"""`minikafka completion`: completion of the command line in bash, zsh and fish, by click."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from minikafka.cli.terminal.output import echo

COMPLETE_VARIABLE = "_MINIKAFKA_COMPLETE"
"""The environment variable with which a shell asks `minikafka` for completions instead of running a command."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script with which a shell completes commands, options and contexts at the Tab key.

    Bash: `minikafka completion bash >> ~/.bashrc`, zsh: `minikafka completion zsh >> ~/.zshrc` (after compinit), fish:
    `minikafka completion fish > ~/.config/fish/completions/minikafka.fish`. Bash must be 4.4 or later.

    Example: minikafka completion bash
    """
    kind = get_completion_class(shell)
    assert kind is not None
    echo(kind(context.find_root().command, {}, "minikafka", COMPLETE_VARIABLE).source())
