"""Where a run's numbers come from: its bank, and how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..runs.rebuild import banks_at
from .run import StoredRun
from .words import plain

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


def banks_of(run: StoredRun) -> list[dict[str, object]]:
    """Provenance and self-check of the bank, or of each of several; [] where they are gone."""
    return [_bank_facts(task, bank) for task, bank in run.each_bank()]


def _bank_facts(task: str, bank: ItemBank) -> dict[str, object]:
    return {
        "task": task,
        "hash": bank.short_hash,
        "method": bank.method,
        "models": list(bank.models),
        "size": bank.n_items,
        "kept": int(np.count_nonzero(bank.kept)),
        "trust": bank.self_check.get("trust"),
        "self_check": [
            (SELF_CHECK_WORDS.get(k, k.replace("_", " ")), plain(v))
            for k, v in bank.self_check.items()
            if k != "trust"
        ],
        "constants": [(k.replace("_", " "), plain(v)) for k, v in bank.constants.items()],
        "settings": [(k.replace("_", " "), plain(v)) for k, v in bank.settings.items()],
        "warnings": [w for w in bank.warnings if w != bank.self_check.get("trust")],
    }


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


def _stated(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {k: _stated(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if v is not None and v != {}}
    return [_stated(v) for v in value] if isinstance(value, list) else value
