"""Docstrings in numpydoc's sections, written as prose, as reStructuredText.

The description of a parameter may begin behind its colon, `name : what it is, and more of it in the
next line.`, where numpydoc would take it for a type. Bars and underscores of formulas and names,
|λ| and coef_, are text and not markup.
"""

import re
from textwrap import dedent

FIELDS = {"Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"}
RUBRICS = {"Examples", "Notes", "References"}
ENTRY = re.compile(r"^(\*{0,2}\w[\w, *]*?) : (.+)$")
WIDTH = 92  # of a docstring, up to which words would have been put in the same line
CODE = re.compile(r"(``.*?``|`.*?`)")
MARKUP = re.compile(r"\||\*|(?<=\w)_(?!\w)")


def sections(lines):
    """Pairs of a title, "" for what comes first, and the lines below it."""
    title, body = "", []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line in FIELDS | RUBRICS and following and not following.strip("-"):
            yield title, body
            title, body = line, []
        elif not (line and not line.strip("-") and not body):  # the line under a title
            body.append(line)
    yield title, body


def as_text(lines):
    """Lines without accidental markup: what stands in backquotes and in examples stays."""
    in_example = False
    for line in lines:
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        parts = CODE.split(line)
        if not in_example:
            parts[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
        yield "".join(parts)


def entries(body):
    """Pairs of a line that is not indented, and the indented ones below it."""
    found = []
    for line in body:
        if line[:1].strip():
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return [(line, dedent("\n".join(rest)).strip().splitlines()) for line, rest in found]


def is_type(line, rest):
    """Whether the text behind the colon is a type, and not a sentence that goes on in `rest`."""
    if not rest or rest[0][:1].islower() or line.endswith("."):
        return False
    return len(line) + 1 + len(rest[0].split()[0]) <= WIDTH


def as_definition(line, rest):
    """One entry of a section: its names, its type, and what is said about it."""
    entry = ENTRY.match(line)
    if entry is None:
        head, said = next(as_text([line])), rest
    else:
        head = ", ".join(f"``{name}``" for name in entry[1].split(", "))
        said = [entry[2], *rest]
        if is_type(line, rest):
            head, said = f"{head} : {next(as_text([entry[2]]))}", rest
    return [f"    {head}", *(f"        {text}" for text in as_text(said)), ""]


def as_field(title, body):
    """A section of entries, or of plain text where nothing is indented."""
    found = entries(body)
    if not any(ENTRY.match(line) or rest for line, rest in found):
        return [f":{title}:", *(f"    {line}" for line in as_text(body)), ""]
    return [f":{title}:", *(part for entry in found for part in as_definition(*entry))]


def written(lines):
    """A docstring as reStructuredText."""
    for title, body in sections(lines):
        if title in FIELDS:
            yield from ("", *as_field(title, body))
        else:
            yield from ("", f".. rubric:: {title}", "") if title else ()
            yield from as_text(body)


def process(app, what, name, obj, options, lines):
    """Rewrite one docstring in place."""
    lines[:] = list(written(lines))


def skip(app, what, name, obj, skipped, options):
    """Leave out what scikit-learn adds to estimators for metadata routing."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def setup(app):
    """Listen to autodoc."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-skip-member", skip)
    return {"version": "1", "parallel_read_safe": True}
