"""What to type next: the one command that follows from a result."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..content import RankingContent
from ..live.result import PARTIAL
from ..methods.belief import BENCHMARK
from ..money import dollars
from ..ranker.builder import EVERY_ITEM, EVERY_ITEM_OF_OPEN
from ..ranker.verdicts import NOT_KNOWN
from ..shown import first_of, visible_line

if TYPE_CHECKING:
    from ..live.comparison import Comparison

_AGAIN = "the same command with --resume"


def after_ranking(content: RankingContent, run_dir: Path | None) -> str:
    """Return the sentence that names the command after a ranking; "" if nothing is kept of it.

    Parameters
    ----------
    content : mapping
        As ``result.json`` has it.
    run_dir : Path or None

    Examples
    --------
    >>> after_ranking({"models": {}, "open_pairs": []}, Path("x.run"))
    'Next: lm-eval-ccat report x.run'
    """
    # Nobody can go on from a ranking that is not kept.
    if run_dir is None:
        return ""
    aside = [name for name, row in content["models"].items() if row.get("set_aside")]
    # A run is partial while a model is set aside, unless the user took the model out of the
    # configuration: then nothing is to be corrected.
    if aside and content.get("exit_code", PARTIAL) == PARTIAL:
        names = visible_line(first_of(aside, 4))
        # A model without an answer is taken up anyway.
        answered = any(content["models"][name]["n_items"] for name in aside)
        retry = " (and --retry if its entry was right)" if answered else ""
        return (
            f"Next: correct what set {names} aside and type {_AGAIN}{retry}; all answers are kept."
        )
    if content.get("interrupted"):
        return f"Next: {_AGAIN}; all answers are kept."
    return to_decide(content) or f"Next: lm-eval-ccat report {shlex.quote(str(run_dir))}"


def to_decide(content: RankingContent) -> str:
    """Return how to decide the cheapest open pair, by the limit that stopped the run; else "".

    Examples
    --------
    >>> pair = {"a": "x", "b": "y", "likely_items": {"x": 900, "y": 800}}
    >>> models = {"x": {"n_items": 200}, "y": {"n_items": 200}}
    >>> to_decide({"open_pairs": [pair], "models": models, "items_of_benchmark": 1000,
    ...            "stopped_because": "the limit of 200 items per model is reached"})
    'To decide x and y in 4 of 5 cases: the same command with --resume --max_items 1000'
    >>> to_decide({"sampled": True, "goal_met": False, "open_pairs": [],
    ...            "question": "benchmark", "items_of_benchmark": 60, "answers_of_benchmark": 120,
    ...            "stopped_because": "every item was administered"})
    'To go on with more answers to each item: the same command with --resume --repeats 4'
    """
    pairs, n_items = content.get("open_pairs"), content.get("items_of_benchmark", 0)
    answers_in_full = content.get("answers_of_benchmark", n_items)
    # Every item has all its answers, and others still make an expected score better known.
    all_answered = content.get("stopped_because") in (EVERY_ITEM, EVERY_ITEM_OF_OPEN)
    is_of_expected_scores = content.get("sampled") and content.get("question") == BENCHMARK
    if all_answered and is_of_expected_scores and not content.get("goal_met"):
        repeats = 2 * answers_in_full // n_items
        return f"To go on with more answers to each item: {_AGAIN} --repeats {repeats}"
    if not pairs or not content.get("finished", True) or pairs[0].get("out_of_reach"):
        return ""
    pair, stopped = pairs[0], content.get("stopped_because") or ""
    # What decides in most cases, not on average: the difference may still shrink.
    models, answers_needed = content["models"], pair["likely_items"]
    names = visible_line(f"{pair['a']} and {pair['b']}") + " in 4 of 5 cases"
    # The limit that stopped the run is the one to raise.
    if "items per model" in stopped:
        largest = max(models[name]["n_items"] + n for name, n in answers_needed.items())
        max_items = min(largest, answers_in_full)
        return f"To decide {names}: {_AGAIN} --max_items {max_items}"
    # How long answers take is not known well enough to name a number of seconds.
    if "budget" in stopped and "seconds" not in stopped:
        spent = content.get("cost", 0.0)
        if content.get("cost_unit") == "usd":
            amount = f"--budget_usd {_rounded_up(spent + pair['likely_cost'], 2)}"
            return f"To decide {names}: {_AGAIN} {amount} ({dollars(pair['likely_cost'])} more)"
        if content.get("cost_unit") == "tokens":
            tokens = _rounded_up(spent + pair["likely_cost"], 0)
            return f"To decide {names}: {_AGAIN}, with `budget: {{tokens: {tokens}}}` in its file"
        answers_of_all = answers_in_full * len(models)
        budget = min(round(spent + sum(answers_needed.values())), answers_of_all)
        return f"To decide {names}: {_AGAIN} --budget_items {budget}"
    return ""


def after_comparison(
    comparison: Comparison,
    pages: Sequence[Path],
    *,
    live: bool,
    max_items: int | None = None,
    keeps_answers: bool = True,
) -> str:
    """Return what to type after `compare`.

    Parameters
    ----------
    comparison : Comparison
    pages : sequence of Path
        Pages of it that were written.
    live : bool
        Whether models were asked.
    max_items : int, optional
        The limit of documents that stopped it.
    keeps_answers : bool, optional
        Whether the same command goes on from the answers.

    Examples
    --------
    >>> from lm_eval_ccat import ScoreTable, compare
    >>> table = ScoreTable.from_arrays([[0.2, 0.5, 0.1] * 30], ["same"])
    >>> after_comparison(compare(table, table), [Path("a.html")], live=False)
    'Next: open a.html'
    """
    anew = "" if keeps_answers else " (it asks all anew; --run_dir DIR would keep the answers)"
    undecided = [
        outcome
        for outcome in comparison.outcomes
        if outcome.decisive and outcome.overall.verdict == NOT_KNOWN and outcome.n_items is not None
    ]
    if comparison.verdict == NOT_KNOWN and undecided:
        # Numbers of documents by the outcome that needs most. Without an estimate of what would
        # decide, all are needed.
        answered = max(outcome.overall.documents for outcome in undecided)
        needed = max(
            outcome.overall.documents + (outcome.overall.more_documents or outcome.n_items or 0)
            for outcome in undecided
        )
        n_items = max(outcome.n_items or 0 for outcome in undecided)
        if live and max_items is not None and answered < n_items:
            # Where all is asked anew, another limit that is too low would cost it all once more.
            larger = min(needed, n_items) if keeps_answers else n_items
            return f"To decide it: the same command with --max_items {larger}{anew}"
        if not live and answered < needed <= n_items:
            return (
                f"To decide it: run both models on about {needed - answered:,} more of the task's "
                f"{n_items:,} documents, then the same command"
            )
    name = visible_line(comparison.candidate)
    lists = any(outcome.losses for outcome in comparison.outcomes)
    which = f", which lists the documents on which {name} does worse" if lists else ""
    if pages:
        return f"Next: open {shlex.quote(str(pages[0]))}{which}"
    return f"Next: the same command with -o page.html{which}{anew}"


def after_estimate(
    blocks: Mapping[str, Mapping[str, Any]], output: str | None, keeps_answers: bool
) -> str:
    """Return what to type after an adaptive run of one model.

    Parameters
    ----------
    blocks : mapping of task to mapping
        As the results file has them under ``adaptive``.
    output : str or None
        Where the results file was written.
    keeps_answers : bool
        Whether a cache of responses has the answers.

    Examples
    --------
    >>> after_estimate({"t": {"set_aside": None}}, "out", False)
    'Next: lm-eval-ccat compare LOGS out, where LOGS are those of another model'
    """
    if any(block.get("set_aside") for block in blocks.values()):
        cache = "" if keeps_answers else " and --use_cache FILE, which keeps its answers"
        return f"Next: correct what set the model aside; then the same command{cache}"
    if output:
        place = shlex.quote(output)
        return f"Next: lm-eval-ccat compare LOGS {place}, where LOGS are those of another model"
    return "Next: the same command with --output_path DIR, which keeps the result for `compare`"


def after_simulation(scores: str, file: str | None, **flags_read: str | None) -> str:
    """Return what to type after `simulate`, which wrote JSON to `file` if that is not None.

    `flags_read` are those that say how the scores are read; a bank of them needs the same.

    Examples
    --------
    >>> after_simulation("logs", None, task="t", metric=None)
    'Next: lm-eval-ccat calibrate logs --task t -o bank.json'
    >>> after_simulation("logs", "sim.json")
    'Next: lm-eval-ccat report sim.json --plots figures'
    """
    if file is not None:
        return f"Next: lm-eval-ccat report {shlex.quote(file)} --plots figures"
    flags = [f"--{flag} {shlex.quote(value)}" for flag, value in flags_read.items() if value]
    words = ["Next: lm-eval-ccat calibrate", shlex.quote(scores), *flags, "-o bank.json"]
    return " ".join(words)


def to_rank(tasks: Sequence[str], *, own_tasks: bool = False, **flags: str | None) -> str:
    """Return how to rank models on these tasks, with flags that are not None.

    With `own_tasks` the tasks may be files of the user's, whose folder is not known.

    Examples
    --------
    >>> to_rank(["t"], bank="b.json", metric=None)
    'Next: lm-eval-ccat rank --task t --bank b.json, with --model and --model_args of each model'
    >>> to_rank(["t"], bank="b.json", own_tasks=True).partition("each model")[2]
    ', and --include_path of the folder if the task is your own'
    """
    values = {"task": ",".join(tasks), **flags}
    words = [f"--{flag} {shlex.quote(value)}" for flag, value in values.items() if value]
    folder = ", and --include_path of the folder if the task is your own" if own_tasks else ""
    command = f"lm-eval-ccat rank {' '.join(words)}"
    return f"Next: {command}, with --model and --model_args of each model{folder}"


def _rounded_up(amount: float, digits: int) -> str:
    """Write an amount, never less than it is, with so many decimals or two significant digits."""
    # A cent may be many times a small amount.
    if 0.0 < amount < 1.0:
        digits = max(digits, 1 - math.floor(math.log10(amount)))
    step = 10.0**-digits
    return f"{step * -(-amount // step):.{digits}f}"
