"""Sphinx configuration of the documentation site; `python scripts/build_site.py` uses it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

project = "Ropewalk"
html_title = "Ropewalk"
smartquotes = False  # quotation marks stay as they are in the Markdown copies
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["files"]
myst_heading_anchors = 4
# A language that Pygments does not know, or a snippet with "..." in it, is still readable without colours.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#8a4b08", "color-brand-content": "#8a4b08"},
    "dark_css_variables": {"color-brand-primary": "#e0a458", "color-brand-content": "#e0a458"},
}
pygments_style = "default"  # its colours have enough contrast on the grey of code blocks
pygments_dark_style = "monokai"
copybutton_exclude = ".linenos, .gp, .go"

_FENCE = re.compile(
    r'^(?P<indent> *)(?P<fence>```+)(?P<language>\w+) +(?:title=")?(?P<file>[^\s`{}"=]+)"?$', re.MULTILINE
)


def show_file_names(app: Any, document: str, source: list[str]) -> None:
    """Show the file name of a fence, "```toml ropewalk.toml" or "```toml title=...", as the caption of the block."""
    source[0] = _FENCE.sub(r"\g<indent>\g<fence>{code-block} \g<language>\n\g<indent>:caption: \g<file>\n", source[0])


def link_markdown_copy(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Point each page to its Markdown copy, for programs that prefer it to HTML."""
    if doctree is not None:
        link = f'<link rel="alternate" type="text/markdown" href="{Path(page).name}.md">'
        context["metatags"] = context.get("metatags", "") + link


def setup(app: Any) -> None:
    app.add_lexer("expr", TextLexer)
    app.add_lexer("reference", TextLexer)
    app.connect("source-read", show_file_names)
    app.connect("html-page-context", link_markdown_copy)
