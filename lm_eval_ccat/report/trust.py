"""Whether a ranking can be trusted, in sentences."""

from __future__ import annotations

from typing import Any

from ..bank import ItemBank
from ..upkeep.words import origin, reach, tried
from .decision import pairs_decided
from .run import Run
from .words import listed


def sentences(run: Run) -> list[dict[str, str]]:
    """How far to trust the figures, as pairs of a topic and a text."""
    made: list[dict[str, str]] = []

    def say(topic: str, text: str) -> None:
        made.append({"topic": topic, "text": text})

    _pairs(run, say)
    _range(run, say)
    _sample(run, say)
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
    return made


def _pairs(run: Run, say: Any) -> None:
    found, wrong = pairs_decided(run.result), run.result.get("expected_wrong_pairs")
    if not found["decided"]:
        return
    level = f"{100 * run.result['confidence']:g}%"
    text = f"{found['decided']:,} of {found['pairs']:,} pairs are decided at {level} confidence"
    if wrong is not None:
        few = "fewer than 0.01" if wrong < 0.01 else f"about {wrong:.2g}"
        text += f"; {few} of them are expected to be wrong"
    say("Decisions", text + ".")


def _range(run: Run, say: Any) -> None:
    models = run.result["models"]
    found = [(m, text) for m in run.tested for text in models[m].get("findings", ())]
    for m, text in found:
        say("Range", f"{m} {text}.")
    for task, bank in run.each_bank():
        if text := reach(bank, f"The bank{_of(task)}"):
            say("Range", text + ("" if found else " This run agrees with that."))


def _sample(run: Run, say: Any) -> None:
    models = run.result["models"]
    drawn = {m: s for m in run.tested if (s := models[m].get("sample"))}
    if drawn:
        alone = ", ".join(
            f"{m} {s['estimate']:.3g} ± {s['standard_error']:.2g}" for m, s in drawn.items()
        )
        say("Sample", f"The random documents alone, without the bank, give {alone}.")
    audits = {m: a for m in run.tested if (a := run.result["models"][m].get("audit"))}
    judged = {m: a for m, a in audits.items() if a["agrees"] is not None}
    against = [m for m, a in judged.items() if not a["agrees"]]
    unlike = [m for m, a in audits.items() if not a["fits_the_bank"]]
    if judged and not against:
        each = "every model" if len(judged) == len(run.tested) else listed(list(judged))
        say(
            "Sample",
            f"Documents drawn at random give {each} a score that agrees with its estimate.",
        )
    for m in against:
        say(
            "Sample",
            f"Documents drawn at random contradict the estimate of {m}: {judged[m]['estimate']:.4g}"
            f" against {run.result['models'][m]['estimate']:.4g}. Trust the random documents.",
        )
    if unlike:
        say(
            "Sample",
            f"{listed(unlike)} answer{'s' if len(unlike) == 1 else ''} unlike the models of the "
            "bank; the estimate is less certain than its interval says.",
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
