"""The page of a comparison: a headline and tables with intervals, no script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import __version__
from ..masking import mask_text
from ..methods.belief import BENCHMARK
from .axes import Axis, axis
from .page import asset, csp_hash, environment
from .shapes import ticks
from .words import difference, probability

if TYPE_CHECKING:
    from ..live.comparison import Compared, Comparison
    from ..ranker.difference import Difference


def comparison_page(found: Comparison) -> str:
    """The page of what `compare` found.

    Parameters
    ----------
    found : Comparison

    Returns
    -------
    str
        HTML that loads nothing.
    """
    margin = f"margin {found.margin:g}, " if found.margin else ""
    return _page(
        title=f"{found.candidate} against {found.baseline}",
        headline=_verdict(found),
        notes=[
            f"Candidate minus baseline on the documents that both have; {margin}confidence "
            f"{100 * found.confidence:g}%, two-sided.",
            *(note for note in found.notes if note not in found.warnings),
        ],
        warnings=list(found.warnings),
        tables=[_compared(found, one) for one in found.outcomes],
    )


def in_words(found: Comparison, d: Difference) -> str:
    """The answer as a sentence.

    Examples
    --------
    "b is worse than a by more than 0.01: -0.034 [-0.051, -0.017] ..."
    """
    more = "" if d.more_documents is None else f"; about {d.more_documents:,} more would decide"
    return f"{_said(found, d.verdict)}: {figures(d)}{more}"


def figures(d: Difference) -> str:
    """Difference, interval, probability and documents in one line."""
    clusters = f" in {d.clusters:,} clusters" if d.clusters is not None else ""
    low, at, high = difference(d.low, d.difference, d.high)
    return (
        f"{at} [{low}, {high}], P(better) {probability(d.p_better)}, "
        f"{d.documents:,} documents{clusters}"
    )


def other_answer(found: Comparison, one: Compared) -> list[str]:
    """The answer to the question that does not decide, where it is known."""
    d = one.beside
    if d is None:
        return []
    if one.question == BENCHMARK:
        return [f"  for documents like these: {in_words(found, d)}"]
    gap = difference(d.difference, d.difference, d.difference)[1]
    return [f"  in full runs of these {d.documents:,} documents: {_said(found, d.verdict)} ({gap})"]


def _said(found: Comparison, verdict: str) -> str:
    a, b = found.baseline, found.candidate
    margin = f" by more than {found.margin:g}" if found.margin else ""
    return {
        "better": f"{b} is better than {a}",
        "equivalent": f"{b} is equivalent to {a}"
        + (f" within {found.margin:g}" if found.margin else ""),
        "not worse": f"{b} is not worse than {a}{margin}",
        "worse": f"{b} is worse than {a}{margin}",
        "not known": f"it is not known whether {b} is worse than {a}{margin}",
    }[verdict]


def _verdict(found: Comparison) -> str:
    said = _said(found, found.verdict)
    deciding = [one for one in found.outcomes if one.decisive]
    if len(deciding) > 1 and found.verdict in ("worse", "not known"):
        n = sum(one.overall.verdict == found.verdict for one in deciding)
        said += f" by {n} of {len(deciding)} metrics"
    return f"{said[0].upper()}{said[1:]}." if said.startswith("it is") else f"{said}."


def _compared(found: Comparison, one: Compared) -> dict[str, Any]:
    lines = [("all documents", one.overall), *one.groups.items()]
    margin = found.margin
    ends = [v for _, d in lines for v in (d.low, d.high)]
    places = axis([*ends, 0.0, -margin, margin], 6)
    left, right = places.place(-margin), places.place(margin)
    return {
        "title": one.name,
        "said": ". ".join([in_words(found, one.overall), *other_answer(found, one)]) + ".",
        "before": ["Documents"],
        "after": ["Baseline", "Candidate", "Difference", "P(better)", "n", "Verdict"],
        "ticks": ticks(places),
        "zero": places.place(0.0),
        "margin": {"x": left, "width": round(right - left, 3)} if margin else None,
        "rows": [
            {
                "before": [name],
                **_places(places, d.low, d.difference, d.high),
                "after": [
                    f"{d.baseline:.4g}",
                    f"{d.candidate:.4g}",
                    difference(d.low, d.difference, d.high)[1],
                    probability(d.p_better),
                    f"{d.documents:,}",
                    d.verdict,
                ],
            }
            for name, d in lines
        ],
    }


def _places(scale: Axis, low: float, at: float, high: float) -> dict[str, Any]:
    return {
        "low": scale.place(low),
        "at": scale.place(at),
        "high": scale.place(high),
        "label": f"{at:.4g}, from {low:.4g} to {high:.4g}",
    }


def _page(**content: Any) -> str:
    style = asset("style.css")
    content |= {"style": style, "style_hash": csp_hash(style), "version": __version__}
    return mask_text(str(environment().get_template("plain.html.j2").render(**content)))
