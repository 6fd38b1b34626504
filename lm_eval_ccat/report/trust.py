"""Sentences on whether to trust a ranking, and the settings its numbers come from."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..content import ModelContent, RankingContent
from ..live.spec import without_unset
from ..metrics.scale import Scale
from ..ranker.headline import failures_in_words, number_format
from ..runs.directory import banks_at
from ..shown import exact_percent, first_of, plural
from ..upkeep.words import facts_of, in_one_line
from .stored_run import StoredRun
from .tables import count_pairs

#: What holds of estimates from drawn items alone.
WHATEVER_THE_BANK = "true however wrong the bank is"
#: Topics of sentences about a model that the page shows as warnings at its head.
GRAVE = ("Set aside", "Failed", "Empty")


def on_scale(estimate: float, scale: Scale) -> float:
    """Return the score nearest to an unbiased estimate, which may lie where no score does."""
    return min(max(estimate, scale.low), scale.high)


class Remark(NamedTuple):
    """A sentence on a run, and its topic, by which the page lists it."""

    topic: str
    sentence: str


def remarks_on_models(content: RankingContent) -> Iterator[Remark]:
    """Yield remarks on each model in addition to its figures, the best model's first.

    What the random documents say is one remark, the last. It names the first four models of the
    order that were asked some, and says how many more there are.
    """
    formatted, samples, models = number_format(content), [], content["models"]
    for name in dict.fromkeys([*content["order"], *models]):
        row = models[name]
        yield from _remarks_on_model(content, name, formatted)
        if (sample := row.get("sample")) and name in content["order"]:
            estimate = on_scale(sample["estimate"], Scale.from_dict(content["scale"]))
            figures = f"{formatted(estimate)} ± {formatted(sample['standard_error'])}"
            samples.append(f"{name} {figures} (from {sample['n']})")
    if samples:
        yield Remark(
            "Sample", f"By the random documents, {WHATEVER_THE_BANK}: {first_of(samples, 4)}."
        )


def _remarks_on_model(
    content: RankingContent, name: str, formatted: Callable[[float], str]
) -> Iterator[Remark]:
    """Yield remarks on a model, but for what its random documents say.

    Of a model that was set aside, failures are not told: its reason names the last one.
    """
    row = content["models"][name]
    if place := row.get("place"):
        yield Remark("Place", f"{name}: {place['in_words']}.")
    if repeats := "; ".join(_repeats_in_words(row, formatted)):
        yield Remark("Repeats", f"{name}: {repeats}.")
    for finding in row.get("findings", ()):
        yield Remark("Range", f"{name} {finding}.")
    if row.get("set_aside"):
        yield Remark("Set aside", f"{name} was set aside: {row['set_aside']}")
    elif failed := row.get("failed"):
        failures = failures_in_words(failed, "answers_of_benchmark" in content)
        yield Remark("Failed", f"{name} {failures}")
    # A warning of the run says it already, with what to do.
    is_said = f" answers of {name} are empty" in "\n".join(content.get("warnings", ()))
    if row.get("empty_outputs") and not is_said:
        empty = plural(row["empty_outputs"], "empty answer")
        yield Remark("Empty", f"{name} gave {empty}, scored as they are.")


def _repeats_in_words(row: ModelContent, formatted: Callable[[float], str]) -> Iterator[str]:
    """Yield what repeats of items tell of a model."""
    if "scatter" in row:
        yield f"chance moves a full run's mean by {formatted(row['scatter'])}"
    if pass_at := row.get("pass_at"):
        # A share of the items, whatever the metric's scale is.
        yield f"pass@{pass_at['k']} is {100 * pass_at['estimate']:.3g}%"


def sentences(run: StoredRun) -> Iterator[Remark]:
    """Yield sentences on how far to trust the figures, each after its topic."""
    counts = count_pairs(run.result)
    if counts.decided:
        share = f"{counts.decided:,} of {counts.pairs:,} pairs"
        text = f"{share} are decided at {exact_percent(run.result['confidence'])} confidence"
        if (wrong := run.result.get("expected_wrong_pairs")) is not None:
            expected = "fewer than 0.01" if wrong < 0.01 else f"about {wrong:.2g}"
            text += f"; {expected} of them are expected to be wrong"
        yield Remark("Decisions", text + ".")
    remarks = [
        remark
        for remark in remarks_on_models(run.result)
        if remark.topic in ("Range", "Repeats", "Sample")
    ]
    yield from sorted(remarks, key=lambda remark: remark.topic)
    # Remarks on the range name models about which the bank says little.
    contradicted = any(remark.topic == "Range" for remark in remarks)
    for task, bank in run.bank_of.items():
        name = f"The bank of {task}" if task else "The bank"
        # A blank bank has no facts that could be doubted.
        if not bank.models:
            yield Remark(
                "Bank",
                "No bank was used: all models got the same random documents, so nothing depends "
                "on other models.",
            )
            continue
        facts = facts_of(bank)
        yield Remark("Bank", f"{name}: {in_one_line(facts)}.")
        # The self-check of "default" names the scores for which the bank is to be trusted.
        agrees = "range" in bank.self_check and not contradicted
        yield Remark("Trust", f"{name}: {facts['trust']}." + " This run agrees with that." * agrees)
    if run.failed:
        yield Remark(
            "Failures",
            "Documents on which a request failed count as not seen, never as wrong. If a model "
            "fails on the hard ones, its estimate is too high.",
        )


def warnings(run: StoredRun, *, with_course: bool = True) -> Iterator[Remark]:
    """Yield the page's warnings, the gravest first; `with_course` says that it shows the course."""
    if not run.finished:
        yield Remark("Running", "This run is not finished; the page shows its state so far.")
    grave = [remark for remark in remarks_on_models(run.result) if remark.topic in GRAVE]
    yield from sorted(grave, key=lambda remark: GRAVE.index(remark.topic))
    doubts = run.result.get("warnings", ())
    yield from (Remark("Doubt", f"{text}.") for text in doubts)
    models = run.result["models"]
    estimated = [model for model in run.models if models[model].get("tokens", {}).get("estimated")]
    if names := first_of(estimated, 4):
        yield Remark("Cost", f"Tokens of {names} are estimated from the length of the texts.")
    if run.torn:
        yield Remark(
            "Journal", "The journal ends in a line torn by a crash; that line is left out."
        )
    for task, bank in run.bank_of.items():
        # The run's own warnings may repeat those of its bank.
        texts = [text for text in bank.warnings if f"bank: {text}" not in doubts]
        yield from (Remark("Items", f"{task}: {text}" if task else text) for text in texts)
    if run.banks is None:
        yield Remark(
            "Bank",
            "The run's copy of its item bank is missing or was changed, so the course of the run, "
            "the information curve and the expected scores are left out.",
        )
    # The bank is there, so that another version of the method is what remains.
    elif run.answers and not with_course:
        yield Remark(
            "Version",
            "This version's method gives other figures for the same answers than the run "
            "reported. The page shows what the run reported; its course is left out.",
        )


# -- where numbers come from --------------------------------------------------------------------


def command(run: StoredRun) -> str:
    """Return the command that started the run, or an equivalent one."""
    if run.header.command is not None:
        return shlex.join(["lm-eval-ccat", *map(str, run.header.command)])
    # A run from Python has no command; its bank lies in the run.
    bank = shlex.quote(str(banks_at(run.path)))
    return f"lm-eval-ccat rank config.yaml --bank {bank} --run_dir again"


def configuration(run: StoredRun) -> str:
    """Return the run's configuration as a file for `rank`, without unset values."""
    import yaml

    return str(yaml.safe_dump(without_unset(run.config), sort_keys=False, allow_unicode=True))
