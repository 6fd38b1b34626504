"""A comparison as lines, as a pull request's comment, as a test report and as a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from .. import __version__
from ..errors import UsageError
from ..masking import mask_text
from ..methods.belief import BENCHMARK
from ..shown import in_markdown
from ..wording import plural
from .axes import axis
from .page import asset, csp_hash, environment
from .shapes import ticks
from .words import difference, probability

if TYPE_CHECKING:
    from ..live.comparison import Compared, Comparison
    from ..ranker.difference import Difference


def lines(comparison: Comparison) -> list[str]:
    """One line per outcome, then its groups."""
    shown = []
    for one in comparison.outcomes:
        beside = "" if one.decisive else " (reported)"
        shown.append(f"{one.name}{beside}: {in_words(comparison, one.overall)}")
        width = max(map(len, one.groups), default=0)
        shown += [f"  {name:<{width}}  {figures(d)}" for name, d in one.groups.items()]
        shown += other_answer(comparison, one)
    return [*shown, *(note for note in comparison.notes if note not in comparison.warnings)]


def markdown(comparison: Comparison) -> str:
    """Return a comparison as a comment on a pull request."""
    title = f"{comparison.candidate} against {comparison.baseline}"
    head = ("", "baseline", "candidate", "difference", "interval", "P(better)", "documents", "")
    table = [
        f"### {in_markdown(title)}: **{comparison.verdict}**",
        "",
        "| " + " | ".join(head) + " |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in comparison.outcomes:
        for name, d in ((one.name, one.overall), *((f"– {g}", d) for g, d in one.groups.items())):
            more = f" (about {d.more_documents:,} more decide)" if d.more_documents else ""
            low, at, high = difference(d.low, d.difference, d.high)
            cells = (
                in_markdown(name),
                f"{d.baseline:.4g}",
                f"{d.candidate:.4g}",
                at,
                f"{low} to {high}",
                probability(d.p_better),
                f"{d.documents:,}",
                d.verdict + more,
            )
            table.append("| " + " | ".join(cells) + " |")
    answers = [
        in_markdown(f"{one.name}, {line.strip()}")
        for one in comparison.outcomes
        for line in other_answer(comparison, one)
    ]
    how = f"Margin {comparison.margin:g}, confidence {comparison.confidence:g}, two-sided."
    notes = map(in_markdown, comparison.notes)
    bullets = [f"- {line}" for line in answers], [f"- {line}" for line in notes]
    return "\n".join([*table, "", *bullets[0], "", how, *bullets[1]]) + "\n"


def junit(comparison: Comparison) -> str:
    """A test report: an outcome fails where the candidate is worse, and is skipped if not known."""
    cases = []
    for one in comparison.outcomes:
        # Among many groups some look worse by chance: they are shown and fail nothing.
        for name, d in ((one.name, one.overall), *one.groups.items()):
            text = in_words(comparison, d)
            verdict = d.verdict if one.decisive and d is one.overall else ""
            inside = {
                "worse": f"<failure message={quoteattr(text)}/>",
                "not known": f"<skipped message={quoteattr(text)}/>",
            }.get(verdict, f"<system-out>{escape(text)}</system-out>")
            names = f"classname={quoteattr(one.name)} name={quoteattr(name)}"
            cases.append(f"  <testcase {names}>{inside}</testcase>")
    failed, skipped = (
        sum(f"<{what} " in case for case in cases) for what in ("failure", "skipped")
    )
    suite = quoteattr(f"{comparison.candidate} against {comparison.baseline}")
    return "\n".join(
        [
            '<?xml version="1.0" encoding="utf-8"?>',
            f'<testsuite name={suite} tests="{len(cases)}" failures="{failed}" errors="0" '
            f'skipped="{skipped}">',
            *cases,
            "</testsuite>\n",
        ]
    )


def comparison_page(comparison: Comparison) -> str:
    """Return the HTML page of a comparison.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        HTML that loads nothing.
    """
    margin = f"margin {comparison.margin:g}, " if comparison.margin else ""
    return _page(
        title=f"{comparison.candidate} against {comparison.baseline}",
        headline=_verdict(comparison),
        notes=[
            f"Candidate minus baseline on the documents that both have; {margin}confidence "
            f"{100 * comparison.confidence:g}%, two-sided.",
            *(note for note in comparison.notes if note not in comparison.warnings),
        ],
        warnings=list(comparison.warnings),
        tables=[_compared(comparison, one) for one in comparison.outcomes],
    )


def in_words(comparison: Comparison, d: Difference) -> str:
    """The answer as a sentence.

    Examples
    --------
    "b is worse than a by more than 0.01: -0.034 [-0.051, -0.017] ..."
    """
    more = "" if d.more_documents is None else f"; about {d.more_documents:,} more would decide"
    return f"{_sentence(comparison, d.verdict)}: {figures(d)}{more}"


def figures(d: Difference) -> str:
    """Difference, interval, probability and documents in one line."""
    clusters = f" in {plural(d.clusters, 'cluster')}" if d.clusters is not None else ""
    low, at, high = difference(d.low, d.difference, d.high)
    return (
        f"{at} [{low}, {high}], P(better) {probability(d.p_better)}, "
        f"{plural(d.documents, 'document')}{clusters}"
    )


def other_answer(comparison: Comparison, one: Compared) -> list[str]:
    """The answer to the question that does not decide, where it is known."""
    d = one.beside
    if d is None:
        return []
    if one.question == BENCHMARK:
        return [f"  for documents like these: {in_words(comparison, d)}"]
    gap = difference(d.difference, d.difference, d.difference)[1]
    sentence = _sentence(comparison, d.verdict)
    these = "this document" if d.documents == 1 else f"these {d.documents:,} documents"
    return [f"  in full runs of {these}: {sentence} ({gap})"]


def _sentence(comparison: Comparison, verdict: str) -> str:
    a, b = comparison.baseline, comparison.candidate
    margin = f" by more than {comparison.margin:g}" if comparison.margin else ""
    return {
        "better": f"{b} is better than {a}",
        "equivalent": f"{b} is equivalent to {a}"
        + (f" within {comparison.margin:g}" if comparison.margin else ""),
        "not worse": f"{b} is not worse than {a}{margin}",
        "worse": f"{b} is worse than {a}{margin}",
        "not known": f"it is not known whether {b} is worse than {a}{margin}",
    }[verdict]


def _verdict(comparison: Comparison) -> str:
    sentence = _sentence(comparison, comparison.verdict)
    deciding = [one for one in comparison.outcomes if one.decisive]
    if len(deciding) > 1 and comparison.verdict in ("worse", "not known"):
        n = sum(one.overall.verdict == comparison.verdict for one in deciding)
        sentence += f" by {n} of {len(deciding)} metrics"
    return (
        f"{sentence[0].upper()}{sentence[1:]}." if sentence.startswith("it is") else f"{sentence}."
    )


def _compared(comparison: Comparison, one: Compared) -> dict[str, object]:
    lines = [("all documents", one.overall), *one.groups.items()]
    margin = comparison.margin
    ends = [v for _, d in lines for v in (d.low, d.high)]
    places = axis([*ends, 0.0, -margin, margin], 6)
    sentences = [in_words(comparison, one.overall), *other_answer(comparison, one)]
    return {
        "title": one.name,
        "said": ". ".join(sentences) + ".",
        "ticks": ticks(places),
        "place": places.place,
        "margin": margin,
        "rows": lines,
    }


def _page(**content: Any) -> str:
    style = asset("style.css")
    content |= {"style": style, "style_hash": csp_hash(style), "version": __version__}
    return mask_text(str(environment().get_template("plain.html.j2").render(**content)))


#: What a comparison is written as, by the ending of the file.
FORMATS = {".md": markdown, ".xml": junit, ".html": comparison_page}


def format_of(path: Path) -> Callable[[Comparison], str]:
    """Return the function that writes a file of this ending.

    Raises
    ------
    UsageError
        For an unknown ending.
    """
    if path.suffix not in FORMATS:
        raise UsageError(f"--output {path}: the ending must be one of {', '.join(FORMATS)}")
    return FORMATS[path.suffix]
