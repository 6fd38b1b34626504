"""A bank for a task that few or no models have run, borrowed from tasks on the same documents.

Language pairs, for instance, share their source sentences. Such *donors* share with a new task
which documents are hard and which are noisy. Each donor in turn takes the place of the new task:
its profile (logits of the documents' mean scores) is predicted from those of the other donors and
from as many of its own runs as the new task has,

    profile_d = w_1 mean_{e != d} profile_e + w_2 profile of k runs of d + error_d.

The weights are at least 0 and the same for all donors. They give the guess of the new task's
profile, and the errors show how far such a guess goes wrong. The rows of a donor are then moved to
the guess plus the donor's error, and calibrated with the donor as their family: the self-check of
"default" leaves out whole donors, and so measures how far models of one task depart from a bank
that has not seen the task. Scores of the new task's own runs are added unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ..bank import ItemBank, SuiteBank
from ..bank.suite import is_suite
from ..errors import ScoreTableError, UsageError
from ..methods.calibration import without_copies
from ..methods.sample.method import EASE
from ..metrics.scale import Floats
from ..plugins import existing
from ..scores import ScoreTable
from ..scores.reading import ANY, Query
from ..shown import plural
from .score_tables import make_bank, table_of, tables_of
from .words import trust

#: With fewer donors, their errors say too little about how far a guess goes wrong.
LEAST_DONORS = 3
#: Least share of the new task's documents that a donor must have; without own runs, of the largest
#: donor's documents that all donors must share.
_LEAST_SHARE = 0.5
#: Before logits, scores are clipped to this distance from 0 and 1.
_EDGE = 0.02
#: How often each donor takes the place of the new task, each time with other runs as its own.
_SPLITS = 3
#: The donors' mean counts as much as this number of the task's own runs, where both are averaged.
_RUNS_OF_DONORS = 1.5
#: A donor's correlation with the own runs must exceed so many standard errors of a correlation by
#: chance, and this share of the usual correlation of donors.
_CHANCE, _SHARE_OF_USUAL = 3.0, 1.0 / 3.0


def borrow(
    donors: Mapping[str, ScoreTable],
    own_scores: ScoreTable | None = None,
    *,
    task: str | None = None,
) -> tuple[ScoreTable, ItemBank]:
    """Make a bank for a new task from other tasks on the same documents.

    Parameters
    ----------
    donors : mapping of str to ScoreTable
        Tables of other tasks on the same documents, by task name; at least three. Their documents
        are matched to those of `own_scores` by hash, else by ``doc_id`` within one data set;
        without `own_scores`, to each other by ``doc_id`` alone.
    own_scores : ScoreTable, optional
        Full runs of the new task. Without them, the documents are those that all donors share, and
        the bank's method is "sample"; with them it is "default".
    task : str, optional
        Name of the new task, if no run states it.

    Returns
    -------
    table : ScoreTable
        The scores that the bank is calibrated on: those of the task's own runs, and those of the
        donors as if they were the new task, with models named ``donor: model``.
    bank : ItemBank
        Its provenance names the donors, those that were dropped, and two weights in the predicted
        profile: w_1 of the donors and w_2 of the own runs; see this module.

    Raises
    ------
    UsageError
        Fewer than three donors are left, or a donor has another metric or scale; or, without own
        runs, donors are of several data sets.
    ScoreTableError
        A donor has fewer than half of the documents of the own runs; or, without own runs, all
        donors share fewer than half of the documents of the largest.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> hard = rng.normal(size=40)
    >>> def task() -> ScoreTable:
    ...     noise = rng.normal(size=(5, 40)) + rng.normal(size=40) / 2
    ...     return ScoreTable.from_arrays(1 / (1 + np.exp(2 * hard + noise)), [*"abcde"])
    >>> _, bank = borrow({"de": task(), "es": task(), "uk": task()}, task().select(["a", "b"]))
    >>> bank.n_items, bank.provenance["borrowed"]["donors"]
    (40, ['de', 'es', 'uk'])
    """
    _require_enough(list(donors))
    # Without own runs an empty table stands for them: it has the shared documents, and no rows.
    target_scores = own_scores or _shared(donors)
    n_own_runs = len(target_scores.row_model)
    _require_one_metric(donors, target_scores)
    scores_of = {name: _scores_on(target_scores, name, donor) for name, donor in donors.items()}
    # Only own runs can show that a donor misleads.
    dropped = _dropped(scores_of, target_scores.scores) if n_own_runs else []
    scores_of = {name: scores for name, scores in scores_of.items() if name not in dropped}
    _require_enough(list(scores_of), dropped)
    donors = {name: donors[name] for name in scores_of}
    # The scores of each donor, shifted to the predicted difficulty profile of the new task.
    moved, weights = _moved(scores_of, target_scores.scores)
    table = replace(
        _joined(target_scores, donors, moved),
        task=target_scores.task or task,
        warnings=(*target_scores.warnings, *_warnings(scores_of, dropped, n_own_runs)),
    )
    bank, trust_in_words = _calibrated(table, target_scores, donors)
    weight_of_donors, *weight_of_own = weights.tolist()  # the second only if there are own runs
    borrowed = {
        "donors": list(donors),
        "dropped": dropped,
        "own_runs": n_own_runs,
        "weight_of_donors": round(weight_of_donors, 3),
        "weight_of_own": round(weight_of_own[0], 3) if weight_of_own else 0.0,
    }
    return table, _with_origin(bank, borrowed, trust_in_words)


def _with_origin(bank: ItemBank, borrowed: Mapping[str, Any], trust_in_words: str) -> ItemBank:
    """Return a bank that states what it is borrowed from, in its provenance and in words."""
    own_runs = plural(borrowed["own_runs"], "run") if borrowed["own_runs"] else "no run"
    borrowed_in_words = (
        f"borrowed from {', '.join(borrowed['donors'])}, with {own_runs} of its own: "
        f"{trust_in_words}"
    )
    # `families` lists the donor of each borrowed model; a later calibration from other scores lacks
    # these models, so it is not kept as an option.
    options = {
        key: value for key, value in bank.provenance.get("options", {}).items() if key != "families"
    }
    provenance = {**bank.provenance, "options": options, "borrowed": borrowed}
    check = {**bank.self_check, "trust": borrowed_in_words}
    return replace(bank, provenance=provenance, self_check=check)


def _joined(
    own_scores: ScoreTable, donors: Mapping[str, ScoreTable], moved: Sequence[Floats]
) -> ScoreTable:
    """Return the donors' moved scores and the task's own in one table.

    Parameters
    ----------
    own_scores : ScoreTable
    donors : mapping of str to ScoreTable
    moved : sequence of ndarray
        Scores of each donor on [0, 1] as if it were the new task, as `_moved` returns them.
    """
    models = [f"{name}: {model}" for name, donor in donors.items() for model in donor.row_model]
    configs = [config for donor in donors.values() for config in donor.row_config]
    return replace(
        own_scores,
        raw=own_scores.scale.restore(np.vstack([*moved, own_scores.scores])),
        row_model=(*models, *own_scores.row_model),
        row_config=(*configs, *own_scores.row_config),
        chosen=(),
    )


def _warnings(
    scores_of: Mapping[str, Floats], dropped: Sequence[str], n_own_runs: int
) -> list[str]:
    """Return what a user should know of a borrowed bank, a sentence each.

    Parameters
    ----------
    scores_of : mapping of donor to ndarray of shape (n_rows, n_items)
        NaN where missing.
    dropped : sequence of str
        Donors that mislead.
    n_own_runs : int
        Runs of the task itself.
    """
    warnings = [
        f"donor {name} was dropped: its hard documents are not those of the task's own runs"
        for name in dropped
    ]
    # Without a run, nothing tells whether these documents are hard for the same reasons here.
    if not n_own_runs:
        warnings.append(
            f"borrowed from {len(scores_of)} other tasks, with no run of its own: rankings draw "
            "all documents at random, and only the estimates use what was borrowed, as far as the "
            "draws bear it out; one or two full runs of the task help most"
        )
    without_donor = ~np.isfinite(np.vstack(list(scores_of.values()))).any(axis=0)
    if n_documents := int(without_donor.sum()):
        warnings.append(f"no donor has {n_documents} of the documents; they count as average ones")
    return warnings


def _require_one_metric(donors: Mapping[str, ScoreTable], own_scores: ScoreTable) -> None:
    """Refuse donors whose metric or scale differs from that of `own_scores`.

    Without own runs, `own_scores` has the metric and the scale of the first donor.

    Raises
    ------
    UsageError
    """
    for name, donor in donors.items():
        same_metric = donor.metric == own_scores.metric
        if not (same_metric and donor.scale.agrees_with(own_scores.scale)):
            raise UsageError(
                f"donor {name} is scored by {donor.metric} ({donor.scale.describe()}), not by "
                f"{own_scores.metric} ({own_scores.scale.describe()}): intervals of banks that are "
                "borrowed across metrics do not hold"
            )


def _calibrated(
    table: ScoreTable, own_scores: ScoreTable, donors: Mapping[str, ScoreTable]
) -> tuple[ItemBank, str]:
    """Return the bank of borrowed scores, and how far to trust it, in words.

    Without a run of the task itself, the bank has no curves: it knows of each document only its
    ease, which is the mean of the moved scores.
    """
    if own_scores.row_model:
        # The self-check leaves out whole donors, as families.
        family_of = {
            f"{name}: {model}": name for name, donor in donors.items() for model in donor.models
        }
        family_of |= dict.fromkeys(own_scores.models, own_scores.task or "own")
        bank = make_bank(table, families=tuple(family_of.values()))
        return bank, trust(bank)
    ease = np.asarray(np.nanmean(table.scores, axis=0).round(7))
    bank = replace(make_bank(table, "sample"), parameters={EASE: ease}, warnings=table.warnings)
    return bank, "models are ranked by random documents alone"


def donors_of(
    paths: Sequence[str | Path], query: Query = ANY, exclude: Sequence[str] = ()
) -> dict[str, ScoreTable]:
    """Read donors: every task of logs or tables, and banks that keep their scores.

    Parameters
    ----------
    paths : sequence of path
    query : Query, optional
        Which score of each task; its `task` is the new task, which is no donor.
    exclude : sequence of str, optional
        Models to leave out.

    Returns
    -------
    dict of str to ScoreTable
        By the names of their tasks, or of files that name no task.

    Raises
    ------
    UsageError
        A path does not exist, lacks the metric, holds several scores of a task without one being
        named, or is a bank without scores; or two paths are one, or hold the same task.
    """
    donors: dict[str, ScoreTable] = {}
    path_of: dict[str, Path] = {}
    # A table that names no task is one by its path, so that it could lend twice by two paths.
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise UsageError(f"{', '.join(map(str, paths))}: a path is named twice; leave one out")
    for path in map(Path, paths):
        existing(path, "file or directory to borrow from")
        for name, table in _donors_at(path, query):
            # Of its own scores a task borrows nothing.
            if name == query.task:
                continue
            # Where no task is stated, another file is of another task.
            if name == "task":
                name = path.stem if path.stem not in donors else str(path)
            if name in donors:
                raise UsageError(
                    f"{path_of[name]} and {path} both hold scores of task {name}: put them into "
                    "one table or folder, or leave one of the two out"
                )
            path_of[name] = path
            # A model that is there twice would make its donor look more certain.
            donors[name] = without_copies(table.without(exclude))
    return donors


def borrow_from(
    paths: Sequence[str | Path],
    own_scores: ScoreTable | None = None,
    query: Query = ANY,
    exclude: Sequence[str] = (),
    *,
    method: str = "default",
    **options: Any,
) -> tuple[ScoreTable, ItemBank]:
    """Borrow from files; return the scores that the bank was made from, and the bank.

    Parameters
    ----------
    paths, query, exclude
        See `donors_of`; `own_scores` supplies what `query` leaves open.
    own_scores
        See `borrow`.
    method, **options
        Refused if they are not the defaults, because a borrowed bank takes no options.

    Raises
    ------
    UsageError
        A method or an option is given.
    """
    if method != "default" or any(options.values()):
        raise UsageError(
            "--borrow makes a bank of method 'default' without scores: leave out --method, "
            "--scale_items and --keep_scores"
        )
    # A full run of the task states what the flags leave open.
    if own_scores is not None:
        named = {
            key: getattr(query, key) or getattr(own_scores, key)
            for key in ("task", "metric", "filter")
        }
        query = replace(query, **named)
    donors = donors_of(paths, query, exclude)
    return borrow(donors, own_scores, task=query.task)


def _donors_at(path: Path, query: Query) -> Iterator[tuple[str, ScoreTable]]:
    """Yield the tasks that logs, a table, a bank or a suite hold, each with its scores."""
    # A bank is a .json file, and a suite a folder of banks.
    if path.suffix != ".json" and not is_suite(path):
        yield from tables_of(path, ("*",), query.metric and [query.metric], query).items()
        return
    suite = SuiteBank.load(path)
    metrics = {entry.bank.metric for entry in suite.banks()}
    if query.metric is not None and query.metric not in metrics:
        listing = ", ".join(sorted(metrics))
        raise UsageError(f"{path}: no bank of {query.metric}; there are {listing}")
    for name in suite:
        banks = [bank for bank in suite[name].values() if query.metric in (None, bank.metric)]
        # A task whose banks are of other filters lends by the one that it has.
        banks = [bank for bank in banks if bank.filter == query.filter] or banks
        if not banks or name == query.task:
            continue
        if len(banks) > 1:
            flag = "--metric" if len({bank.metric for bank in banks}) > 1 else "--filter"
            raise UsageError(f"{path}: task {name} has {len(banks)} banks; name one ({flag})")
        [bank] = banks
        # Parameters alone cannot be moved: it is the rows that are calibrated anew.
        if not bank.observations:
            raise UsageError(
                f"{path}: the bank keeps no scores to borrow: name the logs that it was "
                "calibrated on, or calibrate it with --keep_scores"
            )
        yield name, table_of(bank, bank.observations)


def _require_enough(names: Sequence[str], dropped: Sequence[str] = ()) -> None:
    """Refuse to borrow from fewer donors than show how far a guess goes wrong."""
    if len(names) < LEAST_DONORS:
        why = "the documents that are hard there are not hard here"
        without = f" after {', '.join(dropped)} ({why})" if dropped else ""
        raise UsageError(
            f"{plural(len(names), 'donor')} left{without}: borrowing needs {LEAST_DONORS} tasks on "
            "the same documents, whose differences show how far a borrowed bank goes wrong"
        )


def _shared(donors: Mapping[str, ScoreTable]) -> ScoreTable:
    """Return an empty table of the documents that all donors have, by doc_id.

    Metric, scale and filter are those of the first donor.
    """
    tables = list(donors.values())
    first = tables[0]
    data_sets = {
        str(table.settings["dataset_path"])
        for table in tables
        if table.settings.get("dataset_path")
    }
    # Here documents are matched by number alone, which means nothing across data sets; a run of the
    # new task would bring hashes to match by.
    if len(data_sets) > 1:
        raise UsageError(
            f"the donors are of the data sets {', '.join(sorted(data_sets))}: document numbers do "
            "not match across data sets; give one full run of the new task"
        )
    common = set(first.doc_ids).intersection(*(table.doc_ids for table in tables))
    positions = np.array([i for i, doc in enumerate(first.doc_ids) if doc in common], dtype=np.intp)
    if len(positions) < _LEAST_SHARE * max(table.n_items for table in tables):
        raise ScoreTableError(
            f"the donors share {len(positions)} documents by doc_id: too few to borrow from"
        )
    without_rows = first.select([]).take(positions)
    # What else the first donor's table says is true of that task, not of the new one.
    return replace(
        without_rows, doc_hashes=None, task=None, settings={}, sources=(), warnings=(), tokens=None
    )


def _scores_on(own_scores: ScoreTable, name: str, donor: ScoreTable) -> Floats:
    """Return a donor's scores on [0, 1] in the columns of the new task; NaN where missing."""
    data_sets = {table.settings.get("dataset_path") for table in (own_scores, donor)} - {None}
    # Numbers of documents mean nothing across data sets; hashes do.
    by_doc_id = {doc_id: i for i, doc_id in enumerate(donor.doc_ids)} if len(data_sets) < 2 else {}
    by_hash = dict(zip(donor.doc_hashes or (), range(donor.n_items)))
    hashes = own_scores.doc_hashes or (None,) * own_scores.n_items
    donor_columns = [
        by_hash[hash_] if hash_ is not None and hash_ in by_hash else by_doc_id.get(doc_id)
        for hash_, doc_id in zip(hashes, own_scores.doc_ids)
    ]
    # The donor's column of each column of the new task.
    columns = {item: column for item, column in enumerate(donor_columns) if column is not None}
    if len(columns) < _LEAST_SHARE * own_scores.n_items:
        raise ScoreTableError(
            f"donor {name} has {len(columns)} of the {own_scores.n_items} documents, by hash or "
            "doc_id: leave it out, or borrow from a task on the same documents"
        )
    scores = np.full((len(donor.raw), own_scores.n_items), np.nan)
    scores[:, list(columns)] = donor.scores[:, list(columns.values())]
    return scores


def _logits(scores: Floats) -> Floats:
    """Return the logits of scores, which are clipped so that none is infinite."""
    return np.asarray(logit(np.clip(scores, _EDGE, 1.0 - _EDGE)))


def _mean_logits(scores: Floats) -> Floats:
    """Return the logit of each document's mean score; NaN where there is no score."""
    count = np.isfinite(scores).sum(axis=0)
    return _logits(np.nansum(scores, axis=0) / np.where(count, count, np.nan))


def _profile(scores: Floats) -> Floats:
    """Return centred logits of the documents' mean scores; 0 where there is no score."""
    values = _mean_logits(scores)
    return np.nan_to_num(values - np.nanmean(values))


def _predictors(profiles: list[Floats], runs: Floats) -> Floats:
    """Return the columns from which a profile is predicted.

    They are the mean of the donors' `profiles`, and the profile of the task's own `runs`, if any.
    """
    mean = np.mean(profiles, axis=0)
    return np.column_stack([mean, _profile(runs)] if len(runs) else [mean])


def _moved(scores_of: Mapping[str, Floats], own_scores: Floats) -> tuple[list[Floats], Floats]:
    """Return each donor's scores as if it were the new task, and the weights of the guess.

    In logits, a moved score is the new task's mean, plus the guess of its profile, plus the error
    that such a guess made for this donor, plus what sets the donor's row apart from the donor.

    Parameters
    ----------
    scores_of : mapping of donor to ndarray of shape (n_rows, n_items)
        On [0, 1]; NaN where missing.
    own_scores : ndarray of shape (n_runs, n_items)

    Returns
    -------
    moved : list of ndarray of shape (n_rows, n_items)
        By donor, in the order of `scores_of`; on [0, 1].
    weights : ndarray of shape (1,) or (2,)
        w_1 of the donors, and w_2 of the own runs if there are any; see this module.
    """
    n_donors = len(scores_of)
    profile_of = {name: _profile(scores) for name, scores in scores_of.items()}
    weights, prediction_of = _fitted(scores_of, profile_of, len(own_scores))
    guess = _predictors(list(profile_of.values()), own_scores) @ weights
    error_of = {name: profile_of[name] - prediction_of[name] for name in scores_of}
    mean_error = np.mean(list(error_of.values()), axis=0)
    overall_logit = _overall_logit(scores_of, own_scores)
    moved = []
    for name, scores in scores_of.items():
        # Errors about their own mean are too small, as a variance with n in place of n - 1.
        error = (error_of[name] - mean_error) * np.sqrt(n_donors / (n_donors - 1.0))
        deviation = _logits(scores) - _mean_logits(scores)
        moved.append(np.asarray(expit(overall_logit + guess + error + deviation)))
    return moved, weights


def _overall_logit(scores_of: Mapping[str, Floats], own_scores: Floats) -> float:
    """Return the logit of the new task's mean score: between the donors' and that of its own runs.

    The more runs of its own it has, the more these count.
    """
    mean = float(np.mean([np.nanmean(_mean_logits(scores)) for scores in scores_of.values()]))
    if n_runs := len(own_scores):
        own_mean = float(np.nanmean(_mean_logits(own_scores)))
        mean = (n_runs * own_mean + _RUNS_OF_DONORS * mean) / (n_runs + _RUNS_OF_DONORS)
    return mean


def _fitted(
    scores_of: Mapping[str, Floats], profile_of: Mapping[str, Floats], n_runs: int
) -> tuple[Floats, dict[str, Floats]]:
    """Let each donor take the place of the new task, and fit the weights that predict it best.

    Parameters
    ----------
    scores_of : mapping of donor to ndarray of shape (n_rows, n_items)
    profile_of : mapping of donor to ndarray of shape (n_items,)
        Profiles of all rows of each donor.
    n_runs : int
        How many runs of its own the new task has, and so each donor in its place.

    Returns
    -------
    weights : ndarray of shape (1,) or (2,)
    prediction_of : dict of donor to ndarray of shape (n_items,)
        The profile that the weights predict for each donor; of its splits, by the last.
    """
    rng = np.random.default_rng(0)
    # Each split of each donor's rows: its predictors, and the profile that they should predict.
    all_predictors, all_profiles = [], []
    predictors_of: dict[str, Floats] = {}
    for name, scores in scores_of.items():
        peer_profiles = [profile for donor, profile in profile_of.items() if donor != name]
        n_own_runs = min(n_runs, len(scores) - 1)
        for _ in range(_SPLITS):
            order = rng.permutation(len(scores))
            predictors = _predictors(peer_profiles, scores[order[:n_own_runs]])
            # A donor of one run leaves none for a profile of its own; the others' stands for it.
            if n_runs and not n_own_runs:
                predictors = np.column_stack([predictors, predictors])
            all_predictors.append(predictors)
            all_profiles.append(_profile(scores[order[n_own_runs:]]))
        predictors_of[name] = predictors
    from scipy.optimize import nnls  # takes long to import, and few commands borrow

    # Least squares by weights of at least 0.
    weights, _ = nnls(np.vstack(all_predictors), np.concatenate(all_profiles))
    return weights, {name: predictors @ weights for name, predictors in predictors_of.items()}


def _dropped(scores_of: Mapping[str, Floats], own_scores: Floats) -> list[str]:
    """Return the donors to drop: their profiles agree too little with the own runs.

    A profile's correlation with that of the own runs must exceed chance (three standard errors of a
    correlation over all documents of the task) and a third of its mean correlation with as many
    runs of the other donors.
    """
    rng = np.random.default_rng(0)
    chance = _CHANCE / own_scores.shape[1] ** 0.5

    def agreement(name: str, runs: Floats) -> float:
        """Return the correlation of a donor's profile with that of runs, on what these scored."""
        scored = np.isfinite(runs).any(axis=0)
        profiles = _profile(scores_of[name])[scored], _profile(runs)[scored]
        return float(np.nan_to_num(np.corrcoef(*profiles)[0, 1]))

    dropped = []
    for name in scores_of:
        usual_agreement = np.mean(
            [
                agreement(name, scores[rng.permutation(len(scores))[: len(own_scores)]])
                for donor, scores in scores_of.items()
                if donor != name
            ]
        )
        if agreement(name, own_scores) < max(chance, _SHARE_OF_USUAL * float(usual_agreement)):
            dropped.append(name)
    return dropped
