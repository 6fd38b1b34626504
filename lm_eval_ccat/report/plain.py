"""A comparison as lines of text, a pull request's comment, a test report, or a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from .. import __version__
from ..errors import UsageError
from ..live.losses import MOST_LOSSES
from ..masking import mask_text
from ..methods.belief import BENCHMARK, POPULATION, RUN
from ..ranker.verdicts import BETTER, EQUIVALENT, NOT_KNOWN, NOT_WORSE, WORDS, WORSE
from ..shown import difference_texts, exact_percent, in_markdown, plural, whole_percent
from .chart import asset, axis
from .page import environment, own_files

if TYPE_CHECKING:
    from ..live.comparison import Compared, Comparison
    from ..ranker.difference import Difference

#: The questions as a comparison's answers name them.
QUESTIONS = {
    BENCHMARK: "in full runs of these documents",
    POPULATION: "for documents like these",
    RUN: "in these very answers",
}


def question_in_words(compared: Compared) -> str:
    """Name the question that an outcome's verdict answers."""
    if compared.sampled and compared.question == BENCHMARK:
        return "in expected scores on these documents"
    return QUESTIONS[compared.question]


def questions(outcomes: Iterable[Compared]) -> str:
    """Name the questions that verdicts answer, each once: of two tasks one may be sampled."""
    return " and ".join(dict.fromkeys(map(question_in_words, outcomes)))


def lines(comparison: Comparison) -> list[str]:
    """Return the lines of each outcome in turn, and after them the notes that are no warnings.

    An outcome has its verdict, a line for each group of documents, the answer to the other
    question if that is known, and both scores.
    """
    texts = []
    for outcome in comparison.outcomes:
        # An outcome that does not decide the verdict is only reported.
        note = outcome.scale if outcome.decisive else f"reported; {outcome.scale}"
        texts.append(
            f"{outcome.name} ({note}), {question_in_words(outcome)}: "
            + in_words(comparison, outcome, outcome.overall)
        )
        width = max(map(len, outcome.groups), default=0)
        texts += [
            f"  {name:<{width}}  {figures(comparison, difference)}"
            for name, difference in outcome.groups.items()
        ]
        texts += other_answer(comparison, outcome)
        texts.append(
            f"  scores: {comparison.baseline} {outcome.overall.baseline:.4g}, "
            f"{comparison.candidate} {outcome.overall.candidate:.4g}"
        )
    return [*texts, *(note for note in comparison.notes if note not in comparison.warnings)]


def markdown(comparison: Comparison) -> str:
    """Return a comparison as a comment on a pull request."""

    def md(text: str) -> Markup:
        """Return a text that Markdown shows as it is."""
        return Markup(in_markdown(text))

    return _rendered(
        "comparison.md.j2", comparison, md=md, other_answer=other_answer,
        questions=questions(comparison.outcomes), forecast=forecast, missing=missing,
        chance=chance_in_words,
        percent=percent(comparison),
    )  # fmt: skip


class _TestCase(NamedTuple):
    """A case of a test report: an outcome of a comparison, or a group of its documents.

    One with a `verdict` may fail; "" is only shown.
    """

    outcome: str
    name: str
    verdict: str
    text: str


def junit(comparison: Comparison) -> str:
    """Return a test report: an outcome fails if the candidate is worse, is an error if not known.

    So a job that reads the report stops where the exit code stops it.
    """
    # Among many groups some look worse by chance, so groups are shown but never fail.
    cases = [
        _TestCase(
            outcome.name,
            name,
            difference.verdict if outcome.decisive and difference is outcome.overall else "",
            f"{outcome.scale}, {question_in_words(outcome)}: "
            f"{in_words(comparison, outcome, difference)}",
        )
        for outcome in comparison.outcomes
        for name, difference in ((outcome.name, outcome.overall), *outcome.groups.items())
    ]
    return _rendered("comparison.xml.j2", comparison, cases=cases) + "\n"


def comparison_page(comparison: Comparison) -> str:
    """Return the HTML page of a comparison, which loads no other resources.

    At its head stand the verdict as a sentence, notes and warnings; a table for each outcome
    follows, also for those that are only reported.
    """
    margin = comparison.margin
    tables = [_table(comparison, outcome) for outcome in comparison.outcomes]
    headline = sentence(comparison, comparison.verdict)
    deciding = [outcome for outcome in comparison.outcomes if outcome.decisive]
    # The verdict is that of the worst outcome, which the others need not share.
    if len(deciding) > 1 and comparison.verdict in (WORSE, NOT_KNOWN):
        n = sum(outcome.overall.verdict == comparison.verdict for outcome in deciding)
        headline += f" by {n} of {len(deciding)} outcomes"
    headline += f", {questions(deciding)}"
    # The other clauses begin with a model's name, which keeps its case.
    if comparison.verdict == NOT_KNOWN:
        headline = f"I{headline[1:]}"
    margin_words = f"margin {margin:g}, " if margin else ""
    notes = [
        f"Candidate minus baseline, document by document; {margin_words}confidence "
        f"{percent(comparison)}, two-sided.",
        *(
            ["Within the shaded band the candidate differs by no more than the margin."]
            if margin
            else []
        ),
        *(note for note in comparison.notes if note not in comparison.warnings),
    ]
    return _rendered(
        "comparison.html.j2", comparison, headline=f"{headline}.", notes=notes, tables=tables,
        warnings=comparison.warnings, most_losses=MOST_LOSSES, missing=missing,
        chance=chance_in_words, version=__version__,
        **own_files(style=asset("style.css")),
    )  # fmt: skip


def _table(comparison: Comparison, outcome: Compared) -> dict[str, Any]:
    """Return what the page shows of an outcome: its answers in words, and its rows with an axis."""
    margin = comparison.margin
    rows = [("all documents", outcome.overall), *outcome.groups.items()]
    ends = [end for _, difference in rows for end in (difference.low, difference.high)]
    first = f"{question_in_words(outcome)}: {in_words(comparison, outcome, outcome.overall)}"
    answers = map(str.strip, (first, *other_answer(comparison, outcome)))
    return {
        "title": f"{outcome.name} ({outcome.scale})",
        "text": " ".join(f"{answer[0].upper()}{answer[1:]}." for answer in answers),
        "places": axis([*ends, 0.0, -margin, margin], n_ticks=6),
        "margin": margin,
        "rows": rows,
        "losses": outcome.losses,
        "answers_at_hand": any(any(loss.answers) for loss in outcome.losses),
    }


def _rendered(template: str, comparison: Comparison, **content: Any) -> str:
    """Render a template with `content`, without credentials."""
    title = f"{comparison.candidate} against {comparison.baseline}"
    html = environment().get_template(template)
    return mask_text(str(html.render(title=title, comparison=comparison, **content)))


def in_words(comparison: Comparison, outcome: Compared, difference: Difference) -> str:
    """State a verdict, its figures and what would decide it as a sentence.

    Examples
    --------
    "b is worse than a by more than 0.01: -0.034 [95%: -0.051 to -0.017] ..."
    """
    words = forecast(outcome, difference)
    clause = f"{sentence(comparison, difference.verdict)}: {figures(comparison, difference)}"
    return f"{clause}{words and '; '}{words}"


def forecast(outcome: Compared, difference: Difference) -> str:
    """Say how many more documents or answers would decide; never more documents than there are."""
    # Repeats of the same documents decide, not further documents.
    if difference.more_answers:
        return f"about {plural(difference.more_answers, 'more answer')} would decide"
    if not difference.more_documents:
        return ""
    if outcome.has_too_few(difference):
        return f"at this difference even all {outcome.n_items:,} documents would not decide"
    return f"about {plural(difference.more_documents, 'more document')} would decide"


def figures(comparison: Comparison, difference: Difference) -> str:
    """Write a difference, its interval and confidence, its probability and documents in a line."""
    clusters = (
        f" in {plural(difference.clusters, 'cluster')}" if difference.clusters is not None else ""
    )
    answers = (
        f", {plural(difference.answers, 'answer')} of each model"
        if difference.answers is not None
        else ""
    )
    low, gap, high = difference_texts(
        difference.low, difference.difference, difference.high, comparison.margin
    )
    ends = "exact" if difference.difference else "equal"
    if difference.low < difference.high:
        ends = f"{percent(comparison)}: {low} to {high}"
    return (
        f"{gap} [{ends}], P(better) {chance_in_words(difference)}, "
        f"{plural(difference.documents, 'document')}{missing(difference)}{clusters}{answers}"
    )


def chance_in_words(difference: Difference) -> str:
    """Write the probability that the candidate is better, or its bound where scores are missing."""
    percent = f"{whole_percent(difference.p_better)}%"
    if not difference.missing or percent[0] in "<>":
        return percent
    # Of all values that missing scores leave possible, the one nearest to 1/2 is stated.
    if difference.p_better == 0.5:
        return "unknown"
    return f"at {'least' if difference.p_better > 0.5 else 'most'} {percent}"


def missing(difference: Difference) -> str:
    """Name the documents without a score of both models, if there are any."""
    return f" and {difference.missing:,} without a score" if difference.missing else ""


def percent(comparison: Comparison) -> str:
    """Write the confidence of a comparison's intervals."""
    return exact_percent(comparison.confidence)


def other_answer(comparison: Comparison, outcome: Compared) -> list[str]:
    """Return the answer to the question that does not decide, if it is known."""
    difference = outcome.other_question
    if difference is None:
        return []
    # Two answers beside each other need their questions in words.
    if outcome.question != POPULATION:
        return [f"  {QUESTIONS[POPULATION]}: {in_words(comparison, outcome, difference)}"]
    # Sampled answers leave noise, and missing scores leave documents open.
    if outcome.sampled or difference.missing:
        by_benchmark = replace(outcome, question=BENCHMARK)
        return [f"  {question_in_words(by_benchmark)}: {in_words(comparison, outcome, difference)}"]
    # With all documents answered once, the difference itself is exact. It has as many digits as the
    # deciding answer prints, and at least two of its own.
    gap, half = difference.difference, 0.5 * abs(difference.difference)
    low, high = max(outcome.overall.low, gap - half), min(outcome.overall.high, gap + half)
    _, digits, _ = difference_texts(low, gap, high)
    clause = sentence(comparison, difference.verdict)
    n = difference.documents
    documents = "this document" if n == 1 else f"these {n:,} documents"
    return [f"  in full runs of {documents}: {clause} ({digits})"]


def sentence(comparison: Comparison, verdict: str) -> str:
    """Write a verdict as a clause."""
    a, b = comparison.baseline, comparison.candidate
    margin = f" by more than {comparison.margin:g}" if comparison.margin else ""
    return {
        BETTER: f"{b} is better than {a}",
        WORDS[EQUIVALENT]: f"{b} is equivalent to {a}"
        + (f" within {comparison.margin:g}" if comparison.margin else ""),
        NOT_WORSE: f"{b} is not worse than {a}{margin}",
        WORSE: f"{b} is worse than {a}{margin}",
        NOT_KNOWN: f"it is not known whether {b} is worse than {a}{margin}",
    }[verdict]


#: Functions that write a comparison, by the file's ending.
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
