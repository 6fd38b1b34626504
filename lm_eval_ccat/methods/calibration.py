"""`calibrate`: from a score table to an item bank, by any method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np

from .. import __version__
from ..bank.bank import ItemBank, Observation
from ..errors import BankError
from ..metrics.scale import Floats
from ..scores.reading import is_number
from ..scores.table import ScoreTable
from ..shown import first_of, plural
from .method import Fitted
from .method import method as method_named

MIN_MODELS = 2
#: Groups in which models are left out of a calibration to see how well it predicts new ones.
GROUPS = 5
FEW_MODELS = 8
ENOUGH_MODELS = 20
#: Models whose best and worst mean lie closer than this many standard errors, or than this on
#: [0, 1], get a warning.
DISTINCT_ERRORS, NARROW_RANGE = 4.0, 0.05
#: A benchmark whose median model has a mean this close to 0 or 1 gets a warning.
EXTREME = 0.05


def calibrate(
    table: Any,
    method: str = "default",
    *,
    keep_scores: bool = False,
    **options: Any,
) -> ItemBank:
    """Calibrate an item bank on observed scores.

    Parameters
    ----------
    table : ScoreTable, data frame or array_like
        Scores of the calibration models; scores may be missing. A data frame (pandas, polars or
        Arrow) is in long form or, like a matrix, has a row per model and a column per item. To
        state a scale, use `ScoreTable.from_dataframe`.
    method : str, optional
        "default" is recommended; "paper" is that of arXiv:2601.13885; others may be installed
        (`lm_eval_ccat.methods.method`).
    keep_scores : bool, optional
        Keep the scores in the bank: an update then needs no other file, and to rank one of the
        calibration models the bank is fitted again without it. The bank grows with the number of
        models.
    **options
        Options of the method's own calibration.

    Returns
    -------
    ItemBank
        A blank bank if the method needs no calibration.

    Raises
    ------
    BankError
        There are fewer than two models, an item or model has no scores, or all scores are equal.
    UsageError
        The method is unknown, or does not have an option.

    Examples
    --------
    >>> calibrate([[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], method="paper").n_items
    3
    """
    table = ScoreTable.of(table)
    calibrator = method_named(method)
    calibrator.check_options(options, calibrator.calibration_options)
    if calibrator.calibrates and len(table.models) < MIN_MODELS:
        raise BankError(
            f"calibration needs the scores of several models, the table has {len(table.models)}"
        )
    # A method that calibrates nothing still gets a bank: its items and their settings.
    fitted = calibrator.calibrate(table, **options) if calibrator.calibrates else None
    blank = ItemBank.blank(
        table.doc_ids,
        task=table.task,
        metric=table.metric,
        filter=table.filter,
        scale=table.scale,
        doc_hashes=table.doc_hashes,
        prompts=table.prompts and table.prompts.common,
        settings=table.settings,
        method=method,
    )
    if fitted is None:
        return blank
    return replace(
        blank,
        kept=fitted.kept,
        parameters=fitted.parameters,
        constants=fitted.constants,
        models=table.models,
        provenance=_provenance(table, options, fitted),
        self_check=fitted.self_check,
        warnings=(*table.warnings, *table_warnings(table), *fitted.warnings),
        observations=observations_of(table) if keep_scores else (),
    )


def _provenance(
    table: ScoreTable, options: Mapping[str, object], fitted: Fitted
) -> dict[str, object]:
    """Return where a bank comes from, as JSON values."""
    settings = table.settings
    return {
        "package": __version__,
        "harness": settings.get("lm_eval_version"),
        "dataset": {part: settings.get(f"dataset_{part}") for part in ("path", "name", "revision")},
        "sources": list(table.sources),
        **({"tokens": table.tokens} if table.tokens else {}),
        "rows": len(table.row_model),
        "options": dict(options),
        "report": fitted.report,
    }


def observations_of(table: ScoreTable) -> tuple[Observation, ...]:
    """Return a table's scores in the form in which a bank of its items keeps them."""
    out, selections = [], table.chosen or ("",) * len(table.row_model)
    for model, config, selection, row in zip(
        table.row_model, table.row_config, selections, table.scores
    ):
        items = np.flatnonzero(np.isfinite(row))
        # A row that does not say how its items were chosen is all of them, or the first by
        # `--limit`.
        usual = "all" if len(items) == table.n_items else "first"
        out.append(Observation(model, selection or usual, items, row[items], config=config))
    return tuple(out)


# -- whether scores suffice for a bank; these checks need no response model ----------------------


def table_warnings(table: ScoreTable) -> list[str]:
    """Say what in a score table makes a bank calibrated on it doubtful.

    Parameters
    ----------
    table : ScoreTable

    Returns
    -------
    list of str
        Empty if there is no doubt.

    Examples
    --------
    >>> table = ScoreTable.from_arrays([[0.1, 0.6], [0.3, 0.9]], models=["a", "b"])
    >>> table_warnings(table)[0][:20]
    'only 2 models: item '
    """
    return [*_doubts_of_models(table), *_doubts_of_scores(table)]


def _doubts_of_models(table: ScoreTable) -> Iterator[str]:
    """Yield a doubt of few models, of models asked otherwise, and of one model under two names."""
    if (n_models := len(table.models)) < FEW_MODELS:
        yield (
            f"only {n_models} models: item parameters are rough; calibrate on {FEW_MODELS} or "
            f"more, better {ENOUGH_MODELS}"
        )
    # Where a log does not say how models were asked, nothing is known of their prompts.
    if table.prompts is not None and table.prompts.unlike.any():
        rows = np.flatnonzero(table.prompts.unlike).tolist()
        listing = first_of(list(dict.fromkeys(table.row_model[row] for row in rows)), 3)
        yield (
            f"{listing}: asked other prompts than most models, of which the bank's prompts are; "
            "leave them out (--exclude) unless they mean the same"
        )
    if pairs := twins(table):
        listing = ", ".join(f"{model} and {copy}" for model, copy in pairs[:3])
        end = f" and {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
        yield (
            f"equal scores on every item: {listing}{end}; if they are one model, it counts twice "
            "(--drop_copies)"
        )


def _doubts_of_scores(table: ScoreTable) -> Iterator[str]:
    """Yield a doubt of items that no task has, of models that are alike, and of extreme means."""
    # Calibration works with numbers written as texts, but a ranking would find no such document.
    if all(map(is_number, table.doc_ids)):
        yield (
            f"the doc_ids are numbers written as texts ({table.doc_ids[0]!r}), so no task of the "
            "harness has these documents: write doc_id as integers"
        )
    means, scale = np.nan_to_num(table.overview.model_mean), table.scale
    ends, error = [float(means.min()), float(means.max())], _error_of_means(table, means)
    extent = " to ".join(f"{end:.4g}" for end in sorted(scale.restore(ends).tolist()))
    if ends[1] - ends[0] < DISTINCT_ERRORS * error:
        yield (
            f"the models hardly differ: their mean scores ({extent}) lie within what chance over "
            f"items explains (standard error {float(scale.restore_error(error)):.2g}); add "
            "weaker and stronger models"
        )
    elif ends[1] - ends[0] < NARROW_RANGE:
        yield (
            f"the models' mean scores only run from {extent}; a model outside that range is judged "
            "by extrapolation; add weaker and stronger models"
        )
    middle = float(np.median(means))
    if not EXTREME <= middle <= 1.0 - EXTREME:
        yield (
            f"the benchmark is too {'easy' if middle > 0.5 else 'hard'} for these models (median "
            f"mean score {float(scale.restore(middle)):.4g}, {scale.describe()}): few items "
            "separate the models"
        )


def without_copies(table: ScoreTable) -> ScoreTable:
    """Return the table without models whose scores all equal an earlier one's, and a warning of it.

    Examples
    --------
    >>> table = ScoreTable.from_arrays([[0.1, 0.6], [0.1, 0.6], [0.2, 0.3]], ["a", "b", "c"])
    >>> without_copies(table).warnings
    ('1 model is left out, as all its scores equal those of another: b (a)',)
    """
    pairs = twins(table)
    if not pairs:
        return table
    listing = first_of([f"{copy} ({model})" for model, copy in pairs], 5)
    verb, whose = ("is", "its") if len(pairs) == 1 else ("are", "their")
    note = (
        f"{plural(len(pairs), 'model')} {verb} left out, as all {whose} scores equal those of "
        f"another: {listing}"
    )
    distinct = table.without([copy for _, copy in pairs])
    return replace(distinct, warnings=(*distinct.warnings, note))


def twins(table: ScoreTable) -> list[tuple[str, str]]:
    """Return pairs of a model and a later one whose scores are all equal."""
    first: dict[bytes, str] = {}
    pairs = []
    for models, scores in table.parts():
        for model, row in zip(table.models[models], scores):
            # Hashes of rows, because tables of thousands of models do not fit into memory twice.
            earlier = first.setdefault(blake2b(row, digest_size=16).digest(), model)
            if earlier != model:
                pairs.append((earlier, model))
    return pairs


def _error_of_means(table: ScoreTable, means: Floats) -> float:
    """Return the typical standard error of a model's mean, from residuals of model and item.

    A residual is a score less the model's mean, and less what the item's scores are above the means
    of their models.
    """
    overview, sum_of_means = table.overview, np.zeros(table.n_items)
    # By item, the sum of the means of the models that have it: of all where no score is missing.
    if overview.whole:
        sum_of_means += means.sum()
    else:
        for models, scores in table.parts():
            sum_of_means += means[models] @ np.isfinite(scores)
    by_item = (overview.item_sum - sum_of_means) / np.maximum(overview.item_count, 1)
    squares = np.empty(len(means))
    for models, scores in table.parts():
        scores -= means[models, None]
        scores -= by_item
        # A missing score is NaN, of which `fmax` makes 0.
        squares[models] = np.fmax(np.square(scores, out=scores), 0.0, out=scores).sum(axis=1)
    # Each item's mean takes one of n_models degrees of freedom from its residuals.
    freedom = max(len(means) - 1, 1) / len(means)
    count = np.maximum(overview.model_count, 1)
    return float(np.median(np.sqrt(squares / count / freedom / count)))
