"""Whether a ranking can be trusted, in sentences, and where its numbers come from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from ..content import AuditContent, RankingContent
from ..runs.rebuild import banks_at
from ..upkeep.words import origin, reach, tried
from .run import StoredRun
from .tables import numbers, pairs_decided
from .words import listed

#: What the figures of a bank's self-check are; others are shown under their own name.
SELF_CHECK_WORDS = {
    "models_left_out": "models left out in turn",
    "items": "items that each was asked",
    "rms_error": "error of the estimates (root mean square, 0 to 1)",
    "mean_error": "mean error (0 to 1)",
    "rms_standard_error": "standard error stated for them (root mean square, 0 to 1)",
    "z_rms_before_inflation": "error over stated error, as the response model has it",
    "z_rms": "error over stated error, as widened (1 if true)",
    "coverage_95": "share of 95% intervals that held",
    "inflation_c": "factor on the variance",
    "inflation_m": "added to the variance",
    "shared_error_correlation": "correlation of two models' errors on shared items",
    "fit_slope_sd": "spread of the items' slopes",
    "fit_bend_sd": "spread of the items' bends",
    "fit_bends": "bends of the item curves",
    "fit_factors": "residual factors",
    "fit_noise": "noise of the median item",
}


def sentences(run: StoredRun) -> Iterator[tuple[str, str]]:
    """How far to trust the figures: what a sentence is about, and the sentence."""
    models, counts = run.result["models"], pairs_decided(run.result)
    if counts["decided"]:
        share = f"{counts['decided']:,} of {counts['pairs']:,} pairs"
        text = f"{share} are decided at {100 * run.result['confidence']:g}% confidence"
        if (wrong := run.result.get("expected_wrong_pairs")) is not None:
            few = "fewer than 0.01" if wrong < 0.01 else f"about {wrong:.2g}"
            text += f"; {few} of them are expected to be wrong"
        yield ("Decisions", text + ".")
    findings = [f"{m} {text}." for m in run.tested for text in models[m].get("findings", ())]
    yield from (("Range", text) for text in findings)
    for task, bank in run.bank_of.items():
        if text := reach(bank, _the_bank(task)):
            yield ("Range", text + ("" if findings else " This run agrees with that."))
    for m in run.tested:
        yield from (("Sample", text) for text in audited(m, models[m].get("audit")))
    yield from (("Sample", text) for text in samples(run.result))
    for task, bank in run.bank_of.items():
        if not bank.models:
            yield (
                "Bank",
                "No bank was used: all models got the same random documents, so nothing depends "
                "on other models.",
            )
            continue
        yield ("Bank", origin(bank, _the_bank(task)))
        if text := tried(bank):
            yield ("Bank", text)
    if n := len(run.failed):
        failed = listed(sorted({model for model, *_ in run.failed}))
        yield (
            "Failures",
            f"{n} request{'s' if n > 1 else ''} failed ({failed}). These documents count as not "
            "seen, never as wrong. If a model fails on the hard ones, its estimate is too high.",
        )


def _the_bank(task: str) -> str:
    return f"The bank of {task}" if task else "The bank"


def samples(content: RankingContent) -> Iterator[str]:
    """Sum up what the random documents alone say of all models, in one sentence."""
    number, models = numbers(content), content["models"]
    each = [
        f"{m} {number(s['estimate'])} ± {number(s['standard_error'])} (from {s['n']})"
        for m in content["order"]
        if (s := models[m].get("sample"))
    ]
    if each:
        yield f"By the random documents alone, without the bank: {listed(each)}."


def audited(name: str, audit: AuditContent | None) -> Iterator[str]:
    """Say in words what the audit's random documents tell of a model."""
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


# -- where numbers come from --------------------------------------------------------------------


def command(run: StoredRun) -> str:
    """The command that the run was started with, or one that does the same."""
    argv = run.header.get("command")
    if isinstance(argv, list):
        return shlex.join(["lm-eval-ccat", *map(str, argv)])
    bank = shlex.quote(str(banks_at(run.path)))
    return f"lm-eval-ccat rank config.yaml --bank {bank} --run_dir again"


def configuration(run: StoredRun) -> str:
    """The run's configuration as a file for `rank`; what was not stated is left out."""
    import yaml

    return str(yaml.safe_dump(_stated(run.config), sort_keys=False, allow_unicode=True))


def _stated(value: object) -> object:
    if isinstance(value, Mapping):
        kept = {k: _stated(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if v is not None and v != {}}
    return [_stated(v) for v in value] if isinstance(value, list) else value
