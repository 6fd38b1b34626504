"""Whether a ranking can be trusted, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..content import AuditContent, RankingContent
from ..upkeep.words import origin, reach, tried
from .decision import pairs_decided
from .run import StoredRun
from .tables import numbers
from .words import listed


class Sentence(NamedTuple):
    """What it is about, and the sentence."""

    topic: str
    text: str


def sentences(run: StoredRun) -> Iterator[Sentence]:
    """How far to trust the figures."""
    models, counts = run.result["models"], pairs_decided(run.result)
    if counts["decided"]:
        share = f"{counts['decided']:,} of {counts['pairs']:,} pairs"
        text = f"{share} are decided at {100 * run.result['confidence']:g}% confidence"
        if (wrong := run.result.get("expected_wrong_pairs")) is not None:
            few = "fewer than 0.01" if wrong < 0.01 else f"about {wrong:.2g}"
            text += f"; {few} of them are expected to be wrong"
        yield Sentence("Decisions", text + ".")
    findings = [f"{m} {text}." for m in run.tested for text in models[m].get("findings", ())]
    yield from (Sentence("Range", text) for text in findings)
    for task, bank in run.each_bank():
        if text := reach(bank, _the_bank(task)):
            yield Sentence("Range", text + ("" if findings else " This run agrees with that."))
    for m in run.tested:
        yield from (Sentence("Sample", text) for text in audited(m, models[m].get("audit")))
    yield from (Sentence("Sample", text) for text in samples(run.result))
    for task, bank in run.each_bank():
        if not bank.models:
            yield Sentence(
                "Bank",
                "No bank was used: all models got the same random documents, so nothing depends "
                "on other models.",
            )
            continue
        yield Sentence("Bank", origin(bank, _the_bank(task)))
        if text := tried(bank):
            yield Sentence("Bank", text)
    if n := len(run.failures):
        failed = listed(sorted({f.model for f in run.failures}))
        yield Sentence(
            "Failures",
            f"{n} request{'s' if n > 1 else ''} failed ({failed}). These documents count as not "
            "seen, never as wrong. If a model fails on the hard ones, its estimate is too high.",
        )


def _the_bank(task: str) -> str:
    return f"The bank of {task}" if task else "The bank"


def samples(content: RankingContent) -> Iterator[str]:
    """What the random documents of a result say by themselves, of all models in one sentence."""
    number, models = numbers(content), content["models"]
    each = [
        f"{m} {number(s['estimate'])} ± {number(s['standard_error'])} (from {s['n']})"
        for m in content["order"]
        if (s := models[m].get("sample"))
    ]
    if each:
        yield f"By the random documents alone, without the bank: {listed(each)}."


def audited(name: str, audit: AuditContent | None) -> Iterator[str]:
    """What the audit's documents, drawn at random, say of a model."""
    if not audit or audit["estimate"] is None:
        return
    verdict = "agrees with" if audit["agrees"] else "contradicts"
    yield (
        f"{name}: the {audit['n']} documents drawn at random give {audit['estimate']:.4g} "
        f"(standard error {audit['standard_error']:.2g}), which {verdict} the estimate."
    )
    if not audit["fits_the_bank"]:
        yield (
            f"{name} answers unlike the models of the bank; the estimate is less certain than its "
            "interval says."
        )
