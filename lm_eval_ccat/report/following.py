"""What to type after a run: the one command that follows from its result."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..content import RankingContent
from ..live.result import PARTIAL
from ..money import dollars
from ..shown import first_of, visible_line

_AGAIN = "the same command with --resume"


def following(content: RankingContent, run_dir: Path | None) -> str:
    """Return the sentence that names the next command; empty if nothing is kept to go on from.

    Parameters
    ----------
    content : mapping
        As ``result.json`` has it.
    run_dir : Path or None

    Examples
    --------
    >>> following({"models": {}, "open_pairs": []}, Path("x.run"))
    'Next: lm-eval-ccat report x.run'
    """
    if run_dir is None:
        return ""
    aside = [name for name, row in content["models"].items() if row.get("set_aside")]
    if aside and content.get("exit_code", PARTIAL) == PARTIAL:
        names = visible_line(first_of(aside, 4))
        return (
            f"Next: correct what set {names} aside and type {_AGAIN} (and --retry if its entry was "
            "right); all answers are kept."
        )
    if content.get("interrupted"):
        return f"Next: {_AGAIN}; all answers are kept."
    return to_decide(content) or f"Next: lm-eval-ccat report {shlex.quote(str(run_dir))}"


def to_decide(content: RankingContent) -> str:
    """Return how to decide the cheapest open pair, by the limit that stopped the run; else "".

    Examples
    --------
    >>> pair = {"a": "x", "b": "y", "items": {"x": 900, "y": 800}, "cost": 0.0}
    >>> models = {"x": {"n_items": 200}, "y": {"n_items": 200}}
    >>> to_decide({"open_pairs": [pair], "models": models, "items_of_benchmark": 1000,
    ...            "stopped_because": "the limit of 200 items per model is reached"})
    'To decide x and y: the same command with --resume --max_items 1000'
    """
    pairs, n_items = content.get("open_pairs"), content.get("items_of_benchmark", 0)
    in_full = content.get("answers_of_benchmark", n_items)  # of one model
    if not pairs or not content.get("finished", True):
        return ""
    first, stopped = pairs[0], content.get("stopped_because") or ""
    models, answers_needed = content["models"], first["items"]
    names = visible_line(f"{first['a']} and {first['b']}")
    if "items per model" in stopped:
        max_items = min(
            max(models[name]["n_items"] + n for name, n in answers_needed.items()), in_full
        )
        return f"To decide {names}: {_AGAIN} --max_items {max_items}"
    if "budget" in stopped and "seconds" not in stopped:
        spent = content.get("cost", 0.0)
        if content.get("cost_unit") == "usd":
            amount = f"--budget_usd {_rounded_up(spent + first['cost'], 2)}"
            return f"To decide {names}: {_AGAIN} {amount} ({dollars(first['cost'])} more)"
        if content.get("cost_unit") == "tokens":
            tokens = _rounded_up(spent + first["cost"], 0)
            return f"To decide {names}: {_AGAIN} `budget: {{tokens: {tokens}}}`"
        answers_of_all = in_full * len(models)
        budget = min(round(spent + sum(answers_needed.values())), answers_of_all)
        return f"To decide {names}: {_AGAIN} --budget_items {budget}"
    return ""


def _rounded_up(amount: float, digits: int) -> str:
    step = 10.0**-digits
    return f"{step * -(-amount // step):.{digits}f}"
