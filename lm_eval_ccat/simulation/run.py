"""`simulate`: hold models out, calibrate on the others, rank the held-out ones, compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ScoreTableError, UsageError
from ..methods.calibration import MIN_MODELS
from ..metrics import check_column
from ..parallel import in_processes
from ..scores import ScoreTable
from ..shown import Grid, Shown
from .folds import HoldOut, hold_outs
from .methods import Method, chosen_methods, with_batches
from .outcome import Outcome
from .protocol import (
    Fold,
    Protocol,
    calibration_set,
    checked_prices,
    drawn_prices,
    item_units,
    read_prices,
)
from .replay import Piece, replay_fold
from .summary import advice, run_record, summarise
from .truth import bootstrap_intervals

DEFAULT_METHODS = ("default", "paper", "random", "common", "limit", "static", "fixed")
#: Numbers of items per model at which ``spend="fixed"`` looks.
FIXED_LEVELS = (10.0, 20.0, 50.0, 100.0, 200.0)
SPENDS = ("budget", "fixed")


@dataclass(frozen=True, repr=False)
class Simulation(Shown):
    """What a replay found.

    Attributes
    ----------
    runs : list of dict
        One record per method, fold and seed; see the documentation of ``simulate``'s JSON.
    summary : dict of str to dict
        Per method, pooled over all runs.
    sweep : dict of str to list of dict
        Per method its summaries at several levels of spending, ``items_per_model`` each.
    advice : list of str
        Which method, and how many items, for the wanted tau and confidence.
    settings : dict
        How the replay was made.
    warnings : list of str
    outcomes : list of Outcome
        The runs with everything measured, at all levels of spending.

    Examples
    --------
    >>> import numpy as np
    >>> from lm_eval_ccat import ScoreTable, simulate
    >>> scores = np.clip(np.linspace(0.2, 0.8, 9)[:, None] + np.linspace(-0.2, 0.2, 60), 0, 1)
    >>> table = ScoreTable.from_arrays(scores, [f"m{n}" for n in range(9)])
    >>> replayed = simulate(table, ["random"], folds=2, processes=1)
    >>> replayed.summary["random"]["tau"]
    1.0
    """

    runs: list[dict[str, Any]]
    summary: dict[str, dict[str, Any]]
    sweep: dict[str, list[dict[str, Any]]]
    advice: list[str]
    settings: dict[str, Any]
    warnings: list[str]
    outcomes: list[Outcome]

    def _grid(self) -> Grid:
        methods = ", ".join(f"{m} {s['tau']:.2f}" for m, s in self.summary.items() if s["tau"])
        columns = (
            "tau", "tau_se", "items_per_model", "share_of_items", "tied_share",
            "confident_accuracy", "z_rms", "coverage", "rmse",
        )  # fmt: skip
        rows = [[name, *(s.get(c) for c in columns)] for name, s in self.summary.items()]
        return Grid(f"tau {methods}", ("method", *columns), rows, tuple(self.advice))

    def to_dict(self) -> dict[str, Any]:
        """JSON values: ``runs`` and ``summary``, then what goes beyond them.

        Examples
        --------
        >>> from lm_eval_ccat import ScoreTable, simulate
        >>> table = ScoreTable.from_arrays([[n / 9, n / 10] * 30 for n in range(9)], "abcdefghi")
        >>> sorted(simulate(table, ["random"], folds=1, processes=1).to_dict())[:3]
        ['advice', 'runs', 'settings']
        """
        return {
            "runs": self.runs,
            "summary": self.summary,
            "sweep": self.sweep,
            "advice": self.advice,
            "settings": self.settings,
            "warnings": self.warnings,
        }


def simulate(
    table: ScoreTable | str | Path,
    methods: Sequence[str | Method] = DEFAULT_METHODS,
    *,
    metric: str | None = None,
    holdout: int = 4,
    folds: int = 20,
    seeds: int = 1,
    items_per_model: float | None = 20,
    confidence: float = 0.95,
    units: Mapping[Any, float] | ArrayLike | str | Path | None = None,
    units_column: str | None = None,
    prices: Mapping[str, float] | str | Path | None = None,
    warmup: int = 10,
    levels: Sequence[float] | None = (),
    wanted_tau: float = 0.9,
    holdouts: Sequence[Sequence[str]] | None = None,
    calibration_models: int | None = None,
    item_scaling: bool = False,
    tested: ScoreTable | None = None,
    spend: str = "budget",
    kind: str = "random",
    batch: int = 1,
    seed: int = 0,
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **reading: Any,
) -> Simulation:
    """Replay logged scores: how few items would have been enough, and by which method?

    Held-out models never touch calibration. Every method of a fold spends the same: what the
    method "paper" spent there (mean over seeds) if it is among them, else the budget.

    Parameters
    ----------
    table : ScoreTable or path
        Scores of all models; a path is read by :meth:`ScoreTable.read` with ``metric`` and
        ``**reading`` (``task``, ``filter``, ``range``, ``lower_is_better``).
    methods : sequence of str or Method
        Names of ``METHODS``, or methods of one's own.
    holdout : int
        Models per fold that are ranked; the others calibrate. Where no method calibrates anything
        (``sample`` and the random baselines) it may be all of them.
    folds : int
        Distinct hold-out sets, from successive seeded partitions of the models; fewer where the
        models have no more.
    seeds : int
        Runs per fold and method; the seed drives prices and every method's randomness.
    items_per_model : float or None
        The budget is this times the sum of the held-out models' mean item prices. With None there
        is no budget, and the ranker stops by itself.
    confidence : float
        Two-sided, for pairs and intervals.
    units, units_column : optional
        Size of each item: ``{doc_id: units}``, an array in the table's order, or a file and its
        column. Default 1 each.
    prices : mapping or path, optional
        Price of one unit of each model; default drawn log-uniformly from 0.1 to 3.2 per seed.
    warmup : int
        Items every model gets first.
    levels : sequence of float, optional
        Other values of ``items_per_model`` to replay for ``sweep`` and ``advice``. None picks
        half, twice and four times ``items_per_model``.
    wanted_tau : float
        What the advice is for.
    holdouts : sequence of sequences of str, optional
        Hold-out sets of one's own, in place of ``holdout`` and ``folds``.
    calibration_models : int, optional
        Calibrate on a seeded draw of so many of the other models, to see what few are good for.
    item_scaling : bool
        Scale each item's scores to [0, 1] over the calibration rows of each fold, as the paper does
        for BioLaySumm; what is ranked, and the truth, is then the mean of the scaled scores.
    tested : ScoreTable, optional
        What held-out models are tested and judged by, where that is not all of their configs: the
        same models and items at one temperature, say. Calibration sees all of ``table``.
    spend : {"budget", "fixed"}
        With "fixed" every method gives every model ``items_per_model`` items, and those of
        ``levels``, at equal prices and whatever their units, stops nothing early and looks once.
    kind : {"random", "frontier", "family"}
        Which models are held out: any; the best third, and only models below it calibrate; whole
        families by the first part of the models' names.
    batch : int
        Above 1, methods that ask as they go stand in the result a second time, asking so many
        items at once: what the batch's answers tell is not used to choose among them.
    seed : int
        Of the partitions and of the draw of calibration models.
    processes : int, optional
        How many folds at once; by default one per core.
    on_progress : callable, optional
        Called with (folds done, folds in all).

    Returns
    -------
    Simulation

    Raises
    ------
    UsageError
        Too few models, an unknown method, or units and prices that do not fit.
    ScoreTableError, ScaleError
        The scores cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> skill, ease = np.linspace(-1, 1, 12)[:, None], rng.normal(size=200)[None]
    >>> scores = 1 / (1 + np.exp(-skill - ease + 0.5 * rng.normal(size=(12, 200))))
    >>> table = ScoreTable.from_arrays(scores, models=[f"m{i}" for i in range(12)])
    >>> found = simulate(table, ["paper", "random"], folds=2, processes=1)
    >>> sorted(found.summary)
    ['paper', 'random']
    """
    if not isinstance(table, ScoreTable):
        table = ScoreTable.read(table, metric=metric, **reading)
    chosen = with_batches(chosen_methods(methods), batch)
    protocol = _checked(Protocol(seeds, items_per_model, confidence, warmup, item_scaling, spend))
    table, warnings = _usable(table)
    if tested is None:
        tested = table
    elif set(table.models) - set(tested.models) or tested.doc_ids != table.doc_ids:
        raise ScoreTableError("the scores to test by are not of the same models and items")
    item_sizes = item_units(table, units, units_column)
    least = MIN_MODELS if any(m.calibrates for m in chosen) else 0
    if holdouts is None:
        means = np.nanmean(table.model_scores(), axis=1)
        sets = hold_outs(kind, table.models, means, holdout, folds, seed, least)
    else:
        sets = own_sets(table.models, holdouts, least)
    made = _folds(
        tested.select(table.models), sets, seed, item_sizes, prices, seeds, calibration_models
    )
    all_levels = spending_levels(levels, items_per_model, table.n_items, spend)
    pieces = [Piece(fold, chosen, protocol, all_levels) for fold in made]
    outcomes: list[Outcome] = []
    fold_warnings: dict[str, int] = {}
    calibration: dict[str, list[float]] = {}
    for done, result in enumerate(
        in_processes(replay_fold, pieces, (table, tested), processes), start=1
    ):
        outcomes += result.outcomes
        for warning in set(result.warnings):
            fold_warnings[warning] = fold_warnings.get(warning, 0) + 1
        for method, taken in result.calibration_seconds.items():
            calibration.setdefault(method, []).append(taken)
        if on_progress is not None:
            on_progress(done, len(pieces))
    warnings += [
        f"{text} ({count} of {len(made)} folds)" if count < len(made) else text
        for text, count in fold_warnings.items()
    ]
    base = [o for o in outcomes if o.items_per_model == items_per_model]
    sweep = sweep_of(outcomes, all_levels, table.n_items, confidence)
    return Simulation(
        runs=[run_record(outcome, confidence) for outcome in base],
        summary=summarise(base, table.n_items, confidence),
        sweep=sweep,
        advice=advice(sweep, table.n_items, wanted_tau, confidence) if len(all_levels) > 1 else [],
        settings={
            "task": table.task,
            "metric": table.metric,
            "filter": table.filter,
            "scale": table.scale.describe(),
            "models": len(table.models),
            "items_of_benchmark": table.n_items,
            "holdout": len(made[0].holdout),
            "calibration_models": len(made[0].calibration),
            "folds": len(made),
            "seeds": seeds,
            "items_per_model": items_per_model,
            "confidence": confidence,
            "warmup": warmup,
            "item_scaling": item_scaling,
            "spend": spend,
            "kind": "given" if holdouts is not None else kind,
            "batch": batch,
            "prices": "equal" if spend == "fixed" else prices_in_words(prices),
            "units": "1 each" if units is None or spend == "fixed" else units_column or "given",
            "seed": seed,
            "calibration_seconds": {m: float(np.mean(s)) for m, s in calibration.items()},
            "sources": list(table.sources),
        },
        warnings=warnings,
        outcomes=outcomes,
    )


def _checked(protocol: Protocol) -> Protocol:
    if protocol.seeds < 1:
        raise UsageError(f"seeds {protocol.seeds}: at least 1 is needed")
    level = protocol.items_per_model
    if level is not None and not 0 < level < float("inf"):
        raise UsageError(f"items_per_model {level}: a positive number is needed")
    if protocol.spend not in SPENDS:
        raise UsageError(f"spend {protocol.spend!r}: choose one of {', '.join(SPENDS)}")
    if protocol.spend == "fixed" and level is None:
        raise UsageError("spend 'fixed' needs a number of items per model")
    if not 0 < protocol.confidence < 1:
        raise UsageError(f"confidence {protocol.confidence}: a number between 0 and 1 is needed")
    return protocol


def _usable(table: ScoreTable) -> tuple[ScoreTable, list[str]]:
    """Leave out models without any score; refuse a metric that tells nothing apart."""
    check_column(table.raw, metric=table.metric, task=table.task or "")
    warnings = list(table.warnings)
    unscored = ~np.isfinite(table.model_scores()).any(axis=1)
    if unscored.any():
        empty = [table.models[n] for n in np.flatnonzero(unscored)]
        warnings.append(f"no score of {', '.join(empty)}; left out")
        table = table.without(empty)
    return table, warnings


def own_sets(models: Sequence[str], holdouts: Sequence[Sequence[str]], least: int) -> list[HoldOut]:
    """Hold-out sets of one's own, each with the models that it leaves to calibrate on."""
    sets = []
    for names in holdouts:
        unknown = set(names) - set(models)
        if unknown:
            raise ScoreTableError(f"no scores of model {sorted(unknown)[0]!r} to hold out")
        if len(names) < 2 or len(models) - len(names) < least:
            raise UsageError(
                f"hold-out set of {len(names)} models of {len(models)}: at least 2 are needed "
                f"to rank, and {least} to calibrate on"
            )
        sets.append((tuple(names), tuple(m for m in models if m not in set(names))))
    if not sets:
        raise UsageError("no hold-out set given")
    return sets


def prices_by_seed(
    prices: Mapping[str, float] | str | Path | None, models: Sequence[str], seeds: int
) -> list[dict[str, float]]:
    """Prices of one unit of every model: given, out of a file, or drawn for each seed."""
    if prices is None:
        return [drawn_prices(models, s) for s in range(seeds)]
    if isinstance(prices, Mapping):
        return [checked_prices(prices, models)] * seeds
    return [read_prices(prices, models)] * seeds


def prices_in_words(prices: object) -> str:
    """Where prices come from, as the settings of a replay say it."""
    return "given" if prices is not None else "log-uniform from 0.1 to 3.2"


def _folds(
    table: ScoreTable,
    sets: Sequence[HoldOut],
    seed: int,
    units: Any,
    prices: Mapping[str, float] | str | Path | None,
    seeds: int,
    calibration_models: int | None,
) -> list[Fold]:
    models = table.models
    by_seed = prices_by_seed(prices, models, seeds)
    low, high = bootstrap_intervals(table.model_scores(unit=False))
    row = {model: n for n, model in enumerate(models)}
    return [
        Fold(
            number=number,
            holdout=names,
            calibration=calibration_set(others, calibration_models, number, seed),
            low=low[[row[m] for m in names]],
            high=high[[row[m] for m in names]],
            prices=tuple({m: of_seed[m] for m in names} for of_seed in by_seed),
            units=units,
        )
        for number, (names, others) in enumerate(sets)
    ]


def spending_levels(
    levels: Sequence[float] | None,
    items_per_model: float | None,
    n_items: int,
    spend: str = "budget",
) -> tuple[float | None, ...]:
    """The levels of spending to replay, the asked one among them."""
    if items_per_model is None:
        return (None,)
    if spend == "fixed":
        given = [*(FIXED_LEVELS if levels is None else levels), items_per_model]
        if bad := [n for n in given if n != int(n) or n < 1]:
            raise UsageError(f"items per model {bad[0]}: a whole number is needed")
        return tuple(sorted({float(n) for n in given if n <= n_items or n == items_per_model}))
    if levels is None:
        levels = [items_per_model * share for share in (0.5, 1, 2, 4)]
        levels = [n for n in levels if n <= n_items]
    bad = [n for n in levels if not 0 < n < float("inf")]
    if bad:
        raise UsageError(f"items per model {bad[0]}: a positive number is needed")
    return tuple(sorted({float(n) for n in levels} | {float(items_per_model)}))


def sweep_of(
    outcomes: Sequence[Outcome], levels: Sequence[float | None], n_items: int, confidence: float
) -> dict[str, list[dict[str, Any]]]:
    """Each method's summaries at the levels of spending."""
    sweep: dict[str, list[dict[str, Any]]] = {}
    for level in levels:
        at_level = [o for o in outcomes if o.items_per_model == level]
        for method, pooled in summarise(at_level, n_items, confidence).items():
            sweep.setdefault(method, []).append({"asked_items_per_model": level, **pooled})
    return sweep
