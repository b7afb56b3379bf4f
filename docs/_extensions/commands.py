"""A directive that shows what `--help` prints, for a command and all below it."""

import importlib

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

WIDTH = 84  # of a page


def helps(command, path):
    """Pairs of a command as it is typed, and its help."""
    context = click.Context(command, info_name=path, terminal_width=WIDTH, max_content_width=WIDTH)
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from helps(command.get_command(context, name), f"{path} {name}")


class Commands(SphinxDirective):
    """`commands` with a place of the form `module:name`, and the name that is typed."""

    required_arguments = 2

    def run(self):
        """A title and a block for every command."""
        place, typed = self.arguments
        module, name = place.split(":")
        shown = []
        for path, text in helps(getattr(importlib.import_module(module), name), typed):
            title = nodes.rubric("", path, ids=[nodes.make_id(path)])
            shown += [title, nodes.literal_block(text, text, language="text")]
        return shown


def setup(app):
    """Make it known."""
    app.add_directive("commands", Commands)
    return {"version": "1", "parallel_read_safe": True}
