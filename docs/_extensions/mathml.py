"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from docutils import nodes
from docutils.utils.math import latex2mathml


def as_mathml(text, as_block):
    """LaTeX as a `<math>` element; what cannot be read ends the build with a warning."""
    return latex2mathml.tex2mathml(text, as_block=as_block)


def inline(translator, node):
    """A formula within a line."""
    translator.body.append(as_mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def block(translator, node):
    """A formula of its own."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(as_mathml(node.astext(), as_block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Offer the renderer to `html_math_renderer`."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
