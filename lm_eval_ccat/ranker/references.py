"""Reference models: full results as fixed points among which new models find their place.

A leaderboard has the full results of many models. They need no items and have (almost) no error: a
reference model with every score stands where its mean is; one that lacks some items has the
sampling error of its mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..bank import ItemBank
from ..errors import UsageError
from ..methods.belief import References, spread_of_mean
from ..methods.sample.pairs import IMAGINED_ITEMS
from ..methods.sample.repeats import EVENTS
from ..metrics.scale import Floats, differing_scales
from ..scores.prompts import compare_prompts
from ..scores.table import ScoreTable
from ..shown import some
from .contents import OutcomeState
from .join import HARDLY_RELATED, VERIFIED, fault_of
from .looks import ROUNDING


class KnownMean(NamedTuple):
    """A known model's mean on [0, 1], its standard error, and its mean over the items kept.

    A tuple, because users state these three numbers as one.
    """

    mean: float
    error: float
    kept_mean: float


Known = Mapping[str, float | Sequence[float]] | ScoreTable


def references_of(
    known: Known,
    state: OutcomeState | None,
    *,
    new: Iterable[str],
    population: bool,
    answers: int | None = None,
) -> References:
    """Place reference models on the scale of a ranking.

    Parameters
    ----------
    known : mapping of str to float, or ScoreTable
        Full-benchmark mean of each model (or its mean, standard error, and mean over the items
        that may be asked), on [0, 1]; or a table of scores.
    state : OutcomeState or None
        The ranked outcome: its bank identifies the items of the scores, and its policy places a
        mean on its own scale. None for several outcomes, which allow only means.
    new : iterable of str
        Models to be ranked; none may be known.
    population : bool
        Whether the benchmark's items count as a sample of a larger population: then even the means
        of full results have the sampling error of the items.
    answers : int, optional
        If answers are sampled, the number of answers behind a mean. A mean without a stated error
        then gets the error of a mean of so many draws of 0 or 1, the largest that it can have.

    Raises
    ------
    UsageError
        There is no model, a mean lies outside [0, 1], a name appears twice, or the scores are of
        another benchmark or of other prompts.
    """
    doubts: list[str] = []
    if isinstance(known, ScoreTable):
        if state is None:
            raise UsageError("known models of several tasks are given by their means: {name: m}")
        doubts = _doubts_of_prompts(known, state.outcome.bank)
        known = means_of_known(known, state.outcome.bank, population, sampled=answers is not None)
    if not isinstance(known, Mapping):
        raise UsageError(f"known {known!r:.60} is neither a mapping of means nor a ScoreTable")
    if not known:
        raise UsageError("known names no model")
    checked = [_checked_mean(name, value, answers) for name, value in known.items()]
    means = np.array([model.mean for model in checked])
    errors = np.array([model.error for model in checked])
    kept_means = np.array([model.kept_mean for model in checked])
    if population and not errors.any():
        raise UsageError(
            "question 'population' needs the known models' scores, or (mean, standard error, mean)"
        )
    names = tuple(known)
    refuse_known(names, new)
    # A sum of outcomes is ranked by mean scores, which need no place on another scale.
    if state is None:
        references = References(names, kept_means, errors**2, means, errors)
    else:
        references = state.policy.references(names, means, kept_means, errors)
    return replace(references, doubts=tuple(doubts))


def _checked_mean(name: str, value: Any, answers: int | None) -> KnownMean:
    """Return the mean of one known model, stated or of a table, once it makes sense.

    `answers` is the number of sampled answers behind it; None if answers are not sampled.
    """
    try:
        without_error = np.ndim(value) == 0
        mean, error, kept_mean = map(float, [value, 0.0, value] if without_error else list(value))
    except (TypeError, ValueError):
        raise UsageError(
            f"known {value!r} of model {name!r} is not a mean, nor (mean, error, mean over the "
            "items kept)"
        ) from None
    for of_items in (mean, kept_mean):
        if not 0.0 <= of_items <= 1.0:
            raise UsageError(
                f"known mean {of_items!r} of model {name!r} is not in [0, 1]; normalise it with "
                "the scale of the metric first"
            )
    # A mean of sampled answers is not exact, although nobody states its error.
    if answers and without_error:
        error = math.sqrt(spread_of_mean(np.array(mean), np.array(answers)) / answers)
    if not 0.0 <= error < math.inf:
        raise UsageError(f"known error {error!r} of model {name!r} is not 0 or more")
    return KnownMean(mean, error, kept_mean)


def _doubts_of_prompts(table: ScoreTable, bank: ItemBank) -> list[str]:
    """Return what is not known of the prompts of known models; refuse others than the bank's."""
    doubtful: dict[str, list[str]] = {}
    for model in table.models:
        marks = table.prompt_marks(model) or dict.fromkeys(table.doc_ids)
        compared = compare_prompts(marks, bank.marks, ("the source", "the bank"))
        if compared.difference:
            raise UsageError(
                f"known model {model}: {compared.difference}; leave it out, or accept that with a "
                "table without prompts: dataclasses.replace(known, prompts=None)"
            )
        if compared.doubt:
            doubtful.setdefault(compared.doubt, []).append(model)
    return in_words(doubtful, len(table.models))


def in_words(doubtful: Mapping[str, Sequence[str]], n_models: int) -> list[str]:
    """Return doubts about known models, with the names of those that each is about if not all."""
    return [
        f"known: {doubt}" + (f" ({some(models, 3)})" if len(models) < n_models else "")
        for doubt, models in doubtful.items()
    ]


def refuse_known(known: Iterable[str], new: Iterable[str]) -> None:
    """Refuse a model that is both known and to be ranked."""
    twice = sorted(set(known) & set(new))
    if twice:
        raise UsageError(
            f"model {twice[0]!r} is known and is to be ranked; leave it out of one of them"
        )


def means_of_known(
    table: ScoreTable, bank: ItemBank, population: bool = False, *, sampled: bool = False
) -> dict[str, KnownMean]:
    """Return the mean score of each model with a score on an item that the calibration kept.

    Parameters
    ----------
    table : ScoreTable
    bank : ItemBank
    population, sampled : bool, optional
        Whether the items are a sample of a population, and whether answers are sampled. If one is
        true, even a mean over all items has an error: that of a population by the spread of the
        scores; that of sampled answers by the noise within items, or by the spread of the scores if
        that is smaller or an item has a single answer.

    Raises
    ------
    UsageError
        The table is on another scale or has none of the bank's items. Or it is of other documents:
        their hashes differ or, without hashes, the scores do not go with what the bank expects
        (`lm_eval_ccat.ranker.join`).
    """
    sides = ("the bank", bank.scale), ("the known results", table.scale)
    if difference := differing_scales(bank.metric, *sides):
        raise UsageError(f"{difference}; read them with the bank's range and direction")
    table = table.numbered_as(bank.doc_ids, bank.doc_hashes)
    columns = [column for column, doc_id in enumerate(table.doc_ids) if doc_id in bank.index]
    if not columns:
        raise UsageError("the known results are of other items than the bank's")
    scores = _scores_in_bank_order(table, bank, len(columns))
    has_score = np.asarray(np.isfinite(scores[:, bank.kept]).any(axis=1))
    names = [table.models[model] for model in np.flatnonzero(has_score)]
    scores = scores[has_score]
    scored, n = np.isfinite(scores), np.isfinite(scores).sum(axis=1)
    # The error of a population's mean, and of the mean over the bank's items: 0 with all scores.
    variance = _variance_of_scores(scores) / n
    variance_of_part = variance * (1.0 - n / bank.n_items)
    # Sampled answers leave their noise even where every item has a score. It is infinite, and the
    # spread of scores counts instead, if an item has a single answer.
    if sampled and not population:
        noise = [_noise_of_mean(table.select([name]).scores[:, columns]) for name in names]
        variance = np.minimum(variance, variance_of_part + noise)
    elif not population:
        variance = variance_of_part
    mean, kept_mean = (
        np.where(counted, scores, 0.0).sum(axis=1) / counted.sum(axis=1)
        for counted in (scored, scored & bank.kept)
    )
    error = np.sqrt(variance)
    means = map(KnownMean, mean.tolist(), error.tolist(), kept_mean.tolist())
    return dict(zip(names, means))


def _variance_of_scores(scores: Floats) -> Floats:
    """Return the variance of each model's scores, shape (n_models,); NaN is no score.

    A single score has the largest possible variance. Where all scores of a model are equal, half a
    score more is imagined at the far end of the scale, as the method `sample` does.
    """
    scored, n = np.isfinite(scores), np.isfinite(scores).sum(axis=1)
    mean = np.where(scored, scores, 0.0).sum(axis=1) / n
    squares = np.where(scored, (scores - mean[:, None]) ** 2, 0.0).sum(axis=1)
    varies = squares > n * ROUNDING**2
    squares = np.where(varies, squares, IMAGINED_ITEMS * np.maximum(mean, 1.0 - mean) ** 2)
    return np.where(n > 1, squares / np.maximum(n - 1, 1), 0.25)


def _scores_in_bank_order(table: ScoreTable, bank: ItemBank, n_common: int) -> Floats:
    """Return a table's scores in bank order, shape (n_models, n_items); refuse those of others.

    Refused are scores of other documents, by their hashes. Without these the scores themselves
    tell: such as are shifted by a document, run in the other direction, or are unrelated.
    """
    compared = bank.compare(table.doc_ids, table.doc_hashes)
    if changed := compared.changed:
        doc_id = changed[0]
        known_hash, own_hash = (
            str(dict(zip(side.doc_ids, side.doc_hashes or ()))[doc_id])[:8]
            for side in (table, bank)
        )
        raise UsageError(
            f"document {doc_id!r} is {known_hash} in the known results and {own_hash} in the "
            f"benchmark; {len(changed)} of {n_common} documents differ: give results on the "
            "benchmark's documents"
        )
    scores = bank.in_order(table.doc_ids, table.model_scores())
    # Where no hash tells whether documents are the same, the scores have to.
    if len(compared.same) < n_common:
        if fault := fault_of(bank, scores).words:
            raise UsageError(f"the known results are not the bank's: {fault}; {VERIFIED}")
        for model, row in zip(table.models, scores):
            # A model that guesses is related to no bank: one of the bank's own models is known to
            # be of its documents all the same.
            least_z = -math.inf if model in bank.models else HARDLY_RELATED
            if fault := fault_of(bank, row[None], least_z).words:
                raise UsageError(f"known model {model} is not the bank's: {fault}; {VERIFIED}")
    return np.asarray(scores)


def _noise_of_mean(answers: Floats) -> float:
    """Return the variance that the noise of answers gives the mean of the items' means.

    Half an event of noise counts as seen, as in `methods.sample.repeats`. Infinite where an item
    has a single answer.

    Parameters
    ----------
    answers : ndarray of shape (n_answers, n_items)
        NaN where there is none.

    Examples
    --------
    >>> _noise_of_mean(np.array([[1.0, 0.0], [0.0, 0.0]])), _noise_of_mean(np.ones((1, 2)))
    (0.125, inf)
    """
    count = np.isfinite(answers).sum(axis=0)
    answers, count = answers[:, count > 0], count[count > 0]
    if count.min() < 2:
        return math.inf
    squares = float(np.nansum((answers - np.nanmean(answers, axis=0)) ** 2))
    of_answer = (EVENTS + squares) / float((count - 1).sum())
    return of_answer * float((1.0 / count).sum()) / len(count) ** 2
