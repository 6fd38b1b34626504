"""Whether a ranking can be trusted, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..bank import ItemBank
from ..content import AuditContent, RankingContent
from ..upkeep.words import origin, reach, tried
from .decision import pairs_decided
from .run import StoredRun
from .tables import numbers
from .words import listed


def sentences(run: StoredRun) -> list[dict[str, str]]:
    """How far to trust the figures, as pairs of a topic and a text."""
    topics: list[dict[str, str]] = []

    def say(topic: str, text: str) -> None:
        topics.append({"topic": topic, "text": text})

    _pairs(run, say)
    _range(run, say)
    for m in run.tested:
        for text in audited(m, run.result["models"][m].get("audit")):
            say("Sample", text)
    for text in samples(run.result):
        say("Sample", text)
    for task, bank in run.each_bank():
        _bank(task, bank, say)
    if run.failures:
        models = listed(sorted({f.model for f in run.failures}))
        n = len(run.failures)
        say(
            "Failures",
            f"{n} request{'s' if n > 1 else ''} failed ({models}). These documents count as not "
            "seen, never as wrong. If a model fails on the hard ones, its estimate is too high.",
        )
    return topics


def _pairs(run: StoredRun, say: Any) -> None:
    counts, wrong = pairs_decided(run.result), run.result.get("expected_wrong_pairs")
    if not counts["decided"]:
        return
    level = f"{100 * run.result['confidence']:g}%"
    text = f"{counts['decided']:,} of {counts['pairs']:,} pairs are decided at {level} confidence"
    if wrong is not None:
        few = "fewer than 0.01" if wrong < 0.01 else f"about {wrong:.2g}"
        text += f"; {few} of them are expected to be wrong"
    say("Decisions", text + ".")


def _range(run: StoredRun, say: Any) -> None:
    models = run.result["models"]
    findings = [(m, text) for m in run.tested for text in models[m].get("findings", ())]
    for m, text in findings:
        say("Range", f"{m} {text}.")
    for task, bank in run.each_bank():
        if text := reach(bank, f"The bank{_of(task)}"):
            say("Range", text + ("" if findings else " This run agrees with that."))


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


def _of(task: str) -> str:
    return f" of {task}" if task else ""


def _bank(task: str, bank: ItemBank, say: Any) -> None:
    if not bank.models:
        say(
            "Bank",
            "No bank was used: all models got the same random documents, so nothing depends on "
            "other models.",
        )
        return
    say("Bank", origin(bank, f"The bank{_of(task)}"))
    if text := tried(bank):
        say("Bank", text)
