"""The sections of the report's page, in order; other packages may add theirs.

A section's template receives the page's content and the section's own. The package's sections are
entries of ``_OWN``, each with a template file; another package offers one as an entry point::

    [project.entry-points."lm_eval_ccat.report_sections"]
    mine = "my_package.my_section:SECTION"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..plugins import Plugins
from .run import StoredRun


@dataclass(frozen=True)
class Section:
    """One section of the page.

    Attributes
    ----------
    name : str
        Target of links: the ``<section id=...>`` of the template.
    title : str
        Title in the page's list of sections.
    text : str
        Jinja template, in which all values are escaped; empty for the package's own sections,
        whose templates are files ``<name>.html.j2``.
    content : callable
        ``(run) -> dict``: what the template needs in addition to the content of the page.
    shown : callable
        ``(content) -> bool``: whether this run has the section.
    """

    name: str
    title: str
    text: str = ""
    content: Callable[[StoredRun], dict[str, object]] = lambda run: {}
    shown: Callable[[Mapping[str, Any]], bool] = lambda content: True


_OWN = (
    Section("decision", "Decision", shown=lambda content: bool(content["ranks"])),
    Section("ranking", "Estimates"),
    Section("parts", "Parts", shown=lambda content: bool(content["parts"])),
    Section("trust", "Trust"),
    Section("documents", "Documents"),
    Section("progress", "Progress", shown=lambda content: bool(content["progress"])),
    Section("pairs", "Pairs", shown=lambda content: len(content["result"]["order"]) > 1),
    Section("spending", "Spending"),
    Section("information", "Items", shown=lambda content: bool(content["information"])),
    Section("reproduce", "Reproduce"),
)

SECTIONS = Plugins("report section", Section, lambda: {s.name: s for s in _OWN})


def sections_of(
    run: StoredRun, content: Mapping[str, Any]
) -> list[tuple[Section, dict[str, object]]]:
    """Return the sections of a run's page in order, each with its content."""
    sections = [SECTIONS.get(name) for name in SECTIONS.names()]
    return [(section, section.content(run)) for section in sections if section.shown(content)]
