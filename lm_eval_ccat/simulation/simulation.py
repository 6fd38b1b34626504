"""`simulate`: hold models out, calibrate on the others, rank the held-out ones, compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..cluster import in_processes
from ..errors import UsageError
from ..methods.calibration import MIN_MODELS
from ..options import CONFIDENCE, whole
from ..ranker.arguments import item_units
from ..scores import ScoreTable
from ..shown import Shown, ShownTable, plural
from .fold_replay import Fold, Protocol, SharedByFolds, replay_fold
from .folds import (
    HIGHEST_PRICE,
    LOWEST_PRICE,
    Benchmark,
    HoldOut,
    Prices,
    hold_outs,
    lengths_to_replay,
    prices_by_seed,
)
from .judging import Figures, Replay, advice, run_record, summarise
from .strategies import Strategy, chosen_methods

#: The agreement with the true order that the advice aims at.
WANTED_TAU = 0.9
DEFAULT_METHODS = ("default", "paper", "random", "common", "limit", "static", "fixed")

#: How prices are drawn if none are given, in words.
DRAWN_PRICES = f"log-uniform from {LOWEST_PRICE:g} to {HIGHEST_PRICE:g}"
#: The figures of a summary that the printed table has as columns.
_COLUMNS = (
    "tau", "tau_se", "tau_minus_paper", "tau_minus_paper_se", "items_per_model", "share_of_items",
    "cost", "tied_share", "tie_f1", "confident_accuracy", "z_rms", "coverage", "rmse",
    "z_rms_differences", "rmse_differences",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Simulation(Shown):
    """The result of `simulate`.

    Attributes
    ----------
    runs : list of dict
        One record per method, fold and seed at ``items_per_model``; see the documentation of
        ``simulate``'s JSON.
    summary : dict of str to dict
        Figures of each method, pooled over these runs.
    sweep : dict of str to list of dict
        Summaries per method at several test lengths, by ``items_per_model``.
    advice : list of str
        Which method, and how many items, for the wanted tau and confidence; empty with one
        length.
    settings : dict
        Settings of the replay.
    warnings : list of str
    replays : list of Replay
        All runs, at all test lengths, with everything measured.

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

    runs: list[dict[str, object]]
    summary: dict[str, Figures]
    sweep: dict[str, list[Figures]]
    advice: list[str]
    settings: dict[str, Any]
    warnings: list[str]
    replays: list[Replay]

    def _grid(self) -> ShownTable:
        """Return the table that is printed: a row for each method, and notes."""
        methods = ", ".join(
            f"{method} {figures['tau']:.2f}"
            for method, figures in self.summary.items()
            if figures["tau"] is not None
        )
        columns = [
            column
            for column in _COLUMNS
            if any(figures.get(column) is not None for figures in self.summary.values())
        ]
        rows = [
            [name, *(figures.get(column) for column in columns)]
            for name, figures in self.summary.items()
        ]
        notes = (*_notes_of(self.settings), *self.advice)
        return ShownTable(f"tau {methods}", ("method", *columns), rows, notes)

    def to_dict(self) -> dict[str, object]:
        """Return JSON values: ``runs``, ``summary``, sweep, advice, settings and warnings.

        Examples
        --------
        >>> from lm_eval_ccat import ScoreTable, simulate
        >>> table = ScoreTable.from_arrays([[n / 9, n / 10] * 30 for n in range(9)], "abcdefghi")
        >>> sorted(simulate(table, ["random"], folds=1, processes=1).to_dict())[:3]
        ['advice', 'runs', 'settings']
        """
        return {name: value for name, value in vars(self).items() if name != "replays"}


def _notes_of(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was replayed, with which budget, and the weights of several tasks."""
    spending = "no budget"
    if settings["items_per_model"] is not None:
        budget = "" if settings["spend"] == "fixed" else "budget of "
        spending = f"{budget}{settings['items_per_model']:g} items per model"
    yield (
        f"{settings['metric']}: {settings['models']} models x "
        f"{settings['items_of_benchmark']} items, {settings['holdout']} held out in each of "
        f"{plural(settings['folds'], 'fold')}, {plural(settings['seeds'], 'seed')}, "
        f"{spending}, confidence {settings['confidence']:g}"
    )
    if "weights" in settings:
        shares = ", ".join(f"{task} {share:.3g}" for task, share in settings["weights"].items())
        yield f"{len(settings['tasks'])} tasks, their weights: {shares}"


def simulate(
    table: ScoreTable | Mapping[str, ScoreTable] | str | Path,
    methods: Sequence[str | Strategy] = DEFAULT_METHODS,
    *,
    metric: str | None = None,
    holdout: int = 4,
    folds: int = 20,
    seeds: int = 1,
    items_per_model: float | None = 20,
    confidence: float = 0.95,
    units: Mapping[Any, float] | ArrayLike | None = None,
    prices: Prices = None,
    weights: str | Mapping[str, float] = "documents",
    lengths: Sequence[float] | None = (),
    spend: str = "budget",
    kind: str = "random",
    seed: int = 0,
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **reading: Any,
) -> Simulation:
    """Replay logged scores, to learn how few items would have been enough, and by which method.

    Held-out models never enter the calibration. All methods spend the same on a fold: what the
    method "paper" spent there (mean over seeds) if it takes part, else the budget.

    Parameters
    ----------
    table : ScoreTable, mapping of task to ScoreTable, or path
        Scores of all models; a path is read by :meth:`ScoreTable.read` with ``metric`` and
        ``**reading`` (``task``, ``filter``, ``range``, ``lower_is_better``). Several tasks are
        ranked by their weighted mean; models that lack one of them are left out.
    methods : sequence of str or Strategy
        Names of ``METHODS``, or your own methods.
    holdout : int
        Number of models ranked per fold; the others calibrate. If no method calibrates
        (``sample`` and the random baselines), it may be all models.
    folds : int
        Number of distinct hold-out sets, from successive seeded partitions of the models; fewer
        if there are no more.
    seeds : int
        Runs per fold and method; the seed determines prices and every method's randomness.
    items_per_model : float or None
        The budget is this times the sum of the held-out models' mean item prices. With None,
        spending is unlimited, and the ranker stops by itself.
    confidence : float
        Two-sided, for pairs and intervals.
    units : mapping or array_like, optional
        Size of each item: ``{doc_id: units}`` (several tasks: ``{(task, doc_id): units}``), or an
        array in the order of the items. Default 1 each.
    prices : mapping, optional
        Price of one unit of each model; default drawn log-uniformly from 0.1 to 3.2 per seed.
    weights : {"documents", "equal"} or mapping of task to float, optional
        How much each of several tasks counts.
    lengths : sequence of float, optional
        Other values of ``items_per_model`` to replay for ``sweep`` and ``advice``. None picks
        half, twice and four times ``items_per_model``.
    spend : {"budget", "fixed"}
        With "fixed" every method gives every model ``items_per_model`` items, and those of
        ``lengths``, at equal prices and whatever their units, stops nothing early and looks once.
    kind : {"random", "frontier", "family"}
        Which models to hold out: any; models of the best third, with only models below it
        calibrating; or whole families, by the first part of the models' names.
    seed : int
        Seed of the partitions.
    processes : int, optional
        How many folds to replay at once; default one per core.
    on_progress : callable, optional
        Called with (folds done, total folds).

    Returns
    -------
    Simulation

    Raises
    ------
    UsageError
        There are too few models, a method is unknown, units, prices or weights do not fit, or
        ``metric`` is given with scores that are in memory.
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
    # A mistake in the options should not cost the reading of large logs.
    strategies = chosen_methods(methods)
    whole(1).check(seeds, "seeds")
    whole().check(seed, "seed")
    CONFIDENCE.check(confidence, "confidence")
    benchmark = Benchmark.of(_scores_at(table, metric, reading), weights)
    n_items, n_tasks = len(benchmark.items), len(benchmark.tables)
    protocol = Protocol(
        methods=strategies,
        lengths=lengths_to_replay(lengths, items_per_model, n_items, spend, n_tasks),
        units=item_units(benchmark.items, units),
        confidence=confidence,
        spend=spend,
    )
    # Without a method that calibrates, all models may be held out.
    min_calibrating = MIN_MODELS if any(method.calibrates for method in strategies) else 0
    means = benchmark.mean(benchmark.scores, np.isfinite(benchmark.scores))
    sets = hold_outs(
        kind, benchmark.models, means,
        size=holdout, folds=folds, seed=seed, min_calibrating=min_calibrating,
    )  # fmt: skip
    all_folds = _folds_of(sets, prices_by_seed(prices, benchmark.models, seeds))
    replayed = _replay(all_folds, protocol, benchmark, processes, on_progress)
    # The other lengths are for the sweep alone.
    main_runs = [replay for replay in replayed.replays if replay.items_per_model == items_per_model]
    sweep = _sweep(replayed.replays, protocol.lengths, n_items, confidence)
    return Simulation(
        runs=[run_record(replay, n_items, confidence) for replay in main_runs],
        summary=summarise(main_runs, n_items, confidence),
        sweep=sweep,
        advice=advice(sweep, n_items, WANTED_TAU, confidence) if len(protocol.lengths) > 1 else [],
        settings={
            **_settings_of(benchmark),
            **_settings_of_folds(all_folds),
            "items_per_model": items_per_model,
            "confidence": confidence,
            "warmup": protocol.warmup_per_task(items_per_model, n_tasks),
            "spend": spend,
            "kind": kind,
            "prices": "equal" if spend == "fixed" else "given" if prices else DRAWN_PRICES,
            "units": "1 each" if units is None or spend == "fixed" else "given",
            "seed": seed,
            "calibration_seconds": replayed.calibration_seconds,
        },
        warnings=[*benchmark.warnings, *replayed.warnings],
        replays=replayed.replays,
    )


def _scores_at(
    table: ScoreTable | Mapping[str, ScoreTable] | str | Path,
    metric: str | None,
    reading: Mapping[str, Any],
) -> ScoreTable | Mapping[str, ScoreTable]:
    """Return the scores that `simulate` is given; those at a path are read."""
    if isinstance(table, (str, Path)):
        return ScoreTable.read(table, metric=metric, **reading)
    # Options of reading do nothing to scores in memory; ignoring them would look like filtering.
    if reading:
        raise TypeError(f"simulate() takes no {', '.join(reading)} with scores that are read")
    if metric is not None:
        raise UsageError(
            f"metric {metric!r} chooses among scores at a path, and these are in memory: leave it "
            f"out, or read them by it, ScoreTable.read(path, metric={metric!r})"
        )
    return table


def _folds_of(sets: Sequence[HoldOut], prices: Sequence[Mapping[str, float]]) -> list[Fold]:
    """Return a fold for each hold-out set and its calibrating models, with prices by seed."""
    return [
        Fold(
            number,
            holdout=hold_out.ranked,
            calibration=hold_out.calibrating,
            prices=tuple(
                {model: of_seed[model] for model in hold_out.ranked} for of_seed in prices
            ),
        )
        for number, hold_out in enumerate(sets)
    ]


class _Replayed(NamedTuple):
    """Replays and warnings of all folds, and mean seconds of calibration by method."""

    replays: list[Replay]
    warnings: list[str]
    calibration_seconds: dict[str, float]


def _replay(
    folds: Sequence[Fold],
    protocol: Protocol,
    benchmark: Benchmark,
    processes: int | None,
    on_progress: Callable[[int, int], None] | None,
) -> _Replayed:
    """Replay all folds, in several processes; a warning of some folds says of how many."""
    replays: list[Replay] = []
    counts: Counter[str] = Counter()
    seconds_of: dict[str, list[float]] = {}
    replayed = in_processes(replay_fold, folds, SharedByFolds(protocol, benchmark), processes)
    for done, result in enumerate(replayed, start=1):
        replays += result.replays
        # Within a fold several methods may warn of the same.
        counts.update(dict.fromkeys(result.warnings, 1))
        for method, taken in result.seconds.items():
            seconds_of.setdefault(method, []).append(taken)
        if on_progress is not None:
            on_progress(done, len(folds))
    warnings = [
        f"{text} ({count} of {len(folds)} folds)" if count < len(folds) else text
        for text, count in counts.items()
    ]
    means = {method: float(np.mean(seconds)) for method, seconds in seconds_of.items()}
    return _Replayed(replays, warnings, means)


def _sweep(
    replays: Sequence[Replay], lengths: Iterable[float | None], n_items: int, confidence: float
) -> dict[str, list[Figures]]:
    """Return each method's summaries, one of each test length in the order of `lengths`."""
    sweep: dict[str, list[Figures]] = {}
    for length in lengths:
        of_length = [replay for replay in replays if replay.items_per_model == length]
        for method, pooled in summarise(of_length, n_items, confidence).items():
            sweep.setdefault(method, []).append({"asked_items_per_model": length, **pooled})
    return sweep


def _settings_of(benchmark: Benchmark) -> dict[str, Any]:
    """Return what a reader needs to know of the scores that were replayed."""
    tables, tasks = benchmark.tables.values(), list(benchmark.tables)
    # A single task weighs all.
    several = {"tasks": tasks, "weights": dict(benchmark.share)} if len(tasks) > 1 else {}
    return {
        "task": "+".join(tasks) or None,
        **several,
        "metric": _joined(table.metric for table in tables),
        "filter": _joined(table.filter for table in tables),
        "scale": _joined(table.scale.describe() for table in tables),
        "models": len(benchmark.models),
        "items_of_benchmark": len(benchmark.items),
        "sources": [source for table in tables for source in table.sources],
    }


def _settings_of_folds(folds: Sequence[Fold]) -> dict[str, Any]:
    """Return how many folds and seeds were replayed, and how many models each fold has."""
    first = folds[0]
    return {
        "holdout": len(first.holdout),
        "calibration_models": len(first.calibration),
        "folds": len(folds),
        "seeds": len(first.prices),
    }


def _joined(names: Iterable[str | None]) -> str | None:
    """Join the distinct names by commas; None if there are none."""
    return ", ".join(dict.fromkeys(n for n in names if n)) or None
