"""Docstrings are prose: sentences behind the name of a parameter, |λ| and names like `coef_`.

numpydoc takes what follows a parameter's colon on the first line for a type. Where that is the
beginning of a sentence, `name : what it is.`, the whole of it is handed on as the description.
Bars and underscores that reStructuredText would read as markup are escaped.
"""

import re

SECTIONS = {"Parameters", "Attributes", "Other Parameters"}
ENTRY = re.compile(r"^(\*{0,2}\w[\w, *]*?) : (.+)$")
WIDE = 75  # a type is shorter
CODE = re.compile(r"(``.*?``|`.*?`)")
MARKUP = re.compile(r"\||(?<=\w)_(?!\w)")


def is_sentence(entry, following):
    """Whether the text behind the colon goes on in the next line, or is all there is."""
    if not following:
        return True
    return len(entry) >= WIDE or entry.endswith((".", ";", ",")) or following[0].islower()


def rewritten(lines):
    """Docstring lines in which what stands behind the name of a parameter is its description."""
    done, section = [], ""
    for place, line in enumerate(lines):
        following = lines[place + 1] if place + 1 < len(lines) else ""
        if following and not following.strip("-") and line.strip():
            section = line.strip()
        entry = ENTRY.match(line) if section in SECTIONS else None
        continued = following.strip() if following.startswith(" ") else ""
        if entry:
            done += [entry[1], f"    {entry[2] if is_sentence(line, continued) else kind(entry[2])}"]
        else:
            done.append(line)
    return done


def kind(text):
    """A type, set off from the description that follows."""
    return f"{text}." if "`" in text or "*" in text else f"*{text}.*"


def escaped(line):
    """A line of text without accidental markup; what stands in backquotes stays."""
    name, colon, text = line.partition(" : ") if ENTRY.match(line) else ("", "", line)
    parts = CODE.split(text)
    parts[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
    return name + colon + "".join(parts)


def without_markup(lines):
    """All lines but those of examples."""
    done, in_example = [], False
    for line in lines:
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        done.append(line if in_example else escaped(line))
    return done


def process(app, what, name, obj, options, lines):
    """Rewrite one docstring in place."""
    lines[:] = rewritten(without_markup(lines))
    if what in ("attribute", "property"):
        lines.insert(0, "")  # else napoleon takes the words before the first colon for a type


def skip(app, what, name, obj, skipped, options):
    """Leave out what scikit-learn adds to estimators for metadata routing."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def setup(app):
    """Run before napoleon."""
    app.connect("autodoc-process-docstring", process, priority=100)
    app.connect("autodoc-skip-member", skip)
    return {"version": "1", "parallel_read_safe": True}
