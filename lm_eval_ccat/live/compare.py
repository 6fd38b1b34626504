"""`compare`: decide whether a candidate is better than a baseline, from stored results or live."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import MetricError, ScaleError, UsageError
from ..methods.belief import BENCHMARK, POPULATION, RUN
from ..options import AT_LEAST_0, CONFIDENCE, OptionPlace, choice
from ..scores import ScoreTable
from ..scores.reading import Logged, task_name
from .asked import AskedSide, differing_prompts
from .comparison import Compared, Comparison, Gate, require_margin
from .fields import METRICS
from .live_comparison import compare_live
from .losses import size_of
from .mean_scores import compare_estimates
from .result import Observer
from .run_documents import beside_each_other
from .scored import differing_scoring
from .shared_documents import SharedDocuments
from .sides import (
    SIDES,
    Side,
    doubt_of_scale,
    fields_of,
    require_one_promise,
    require_one_scale,
    shared_outcomes,
    told_apart,
    without_files,
)
from .spec import Spec
from .stored import StoredRanking


def compare(
    a: ScoreTable | Mapping[str, Any] | str | Path,
    b: ScoreTable | Mapping[str, Any] | str | Path,
    metric: str | Sequence[str] | Mapping[str, float] | None = None,
    margin: float = 0.0,
    *,
    question: str | None = None,
    models: tuple[str | None, str | None] = (None, None),
    task: str | None = None,
    confidence: float | None = None,
    by: str | None = None,
    cluster: str | None = None,
    items: Mapping[Any, Mapping[str, Any]] | None = None,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    run_dir: str | Path | None = None,
    observer: Observer | None = None,
) -> Comparison:
    """Compare a candidate with a baseline on the documents that both have.

    Parameters
    ----------
    a, b : ScoreTable or path
        Baseline and candidate: harness logs, a score table, or the output of an adaptive run (a run
        directory of ``rank``, or the results of ``run --adaptive`` or a folder of nothing else),
        whose estimates are compared. Or a live model, as ``{"model": "hf", "model_args": {...}}``
        or a YAML file of `rank` with one model: it is asked random documents until the difference
        is known.
    metric : str, sequence of str or mapping of str to float, optional
        Metrics that decide, of all filters or of one (``"exact_match,strict-match"``); those of
        weight 0 (``"chrf=0"`` in a sequence) are only reported.
        Default: every metric that both sides have; of an adaptive run, only the metrics that
        steered it decide.
    margin : float, optional
        Largest acceptable loss, on the metric's own scale.
    question : {"population", "benchmark", "run"}, optional
        Whether scores decide about documents like these, of which the benchmark is a sample (the
        default), about these documents, or about these very answers, even if they are sampled. Live
        models decide about these documents or answers, and estimates about what their run asked;
        another question is refused.
    models : (str or None, str or None), optional
        Names of the two models, if a side holds several.
    task : str, optional
        Default: all that both sides have.
    confidence : float, optional
        Two-sided confidence for each outcome and group; default 0.95.
    by, cluster : str, optional
        Field of the documents to group the comparison by, and field whose equal values form a
        cluster.
    items : mapping, optional
        Fields that the logs' documents lack: ``{doc_id: {field: value}}``.
    range, lower_is_better : optional
        As in `ScoreTable.read`.
    settings : mapping, optional
        ``accept_change``; for live models also further keys of a configuration of `rank`
        (``harness``, ``budget``, ...).
    run_dir : path, optional
        For live models: directory that keeps their answers; where it holds some already, the
        comparison goes on from them.
    observer : Observer, optional
        For live models: receives warnings and progress.

    Returns
    -------
    Comparison

    Raises
    ------
    UsageError
        A side holds several models and `models` names none, or the sides have nothing in common.
    ScoreTableError, ScaleError
        Scores cannot be read.

    Examples
    --------
    >>> table = ScoreTable.from_arrays(
    ...     [[0.2, 0.5, 0.1] * 30, [0.4, 0.5, 0.3] * 30], models=["old", "new"]
    ... )
    >>> compare(table, table, models=("old", "new")).verdict
    'better'
    """
    (a, b), settings = without_files((a, b), settings or {})
    metric = settings.pop("metrics", None) if metric is None else metric
    tasks = settings.pop("tasks", (task,)) if task is None else (task,)
    if len(tasks) > 1:
        raise UsageError("compare takes one task")
    [task] = tasks
    level, asked_question = (settings.pop(key, None) for key in ("confidence", "question"))
    confidence = level if confidence is None else confidence
    question = asked_question if question is None else question
    if confidence is not None:
        CONFIDENCE.check(confidence, "confidence")
    AT_LEAST_0.check(margin, "margin")
    if question is not None:
        choice(POPULATION, BENCHMARK, RUN).check(question, "question")
    weights = METRICS.read(metric, OptionPlace("metric")) if metric else {}
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        if by or cluster or range:
            raise UsageError("--by, --cluster and --range are for stored scores")
        if question == POPULATION:
            raise UsageError(
                "live models are asked until it is known which is better on these documents, and "
                "the answer for documents like these is printed beside it: leave --question out"
            )
        live = {**settings, "task": task, "metrics": list(weights)}
        live["confidence"] = Spec().confidence if confidence is None else confidence
        live["question"] = question or BENCHMARK
        return compare_live((a, b), models, margin, live, run_dir, observer)
    changes = {"accept_change": settings.pop("accept_change", ())}
    accepted = Spec.read(changes).accept_change
    if settings or run_dir:
        raise UsageError("--include_path, --max_items and the like are for live models")
    sides = Side(a, SIDES[0]), Side(b, SIDES[1])
    gate = Gate(margin, _confidence(sides, confidence), _question(sides, question))
    task = None if task is None else task_name(task)
    warnings = [side.warning for side in sides if side.warning]
    outcomes: list[Compared] = []
    names, refused = ("", ""), None
    for outcome, requested in shared_outcomes(sides, list(weights), task).items():
        try:
            first, second = (side.of(outcome, range, lower_is_better) for side in sides)
        except (MetricError, ScaleError) as error:
            if weights:
                raise
            refused = error
            warnings.append(f"{outcome.metric} is left out: {error}")
            continue
        names = sides[0].model(first.models, models[0]), sides[1].model(second.models, models[1])
        require_margin(margin, outcome.metric, require_one_scale(outcome.metric, first, second))
        if isinstance(first, StoredRanking) and isinstance(second, StoredRanking):
            require_one_promise(first, second)
        warnings += _identity_warnings(outcome, (first, second), names, (a, b), accepted)
        if isinstance(first, ScoreTable) and isinstance(second, ScoreTable):
            if doubt := doubt_of_scale((first, second), names, (a, b), range is not None):
                warnings.append(doubt)
            fields = fields_of(items, (a, b), outcome.task) if by or cluster else {}
            documents = SharedDocuments.of(first, second, names, warnings)
            compared = documents.compared(gate, fields, by, cluster)
            compared = replace(compared, n_items=size_of((a, b), outcome.task))
        elif by or cluster:
            raise UsageError("--by and --cluster need the scores of both sides, not an estimate")
        else:
            first, second = beside_each_other(first, second, names, warnings)
            compared = compare_estimates(first, second, names, gate)
        steered = all(side.steers for side in (first, second) if isinstance(side, StoredRanking))
        decisive = weights[requested] > 0.0 if weights else steered
        outcomes.append(replace(compared, decisive=decisive))
    if refused is not None and not outcomes:
        raise refused
    if not any(compared.decisive for compared in outcomes):  # the other side lacks what steered
        outcomes = [replace(compared, decisive=True) for compared in outcomes]
    if names[0] == names[1] and models == (None, None):
        names = told_apart(a, b, names)
    return Comparison(*names, margin, gate.confidence, outcomes, list(dict.fromkeys(warnings)))


def _confidence(sides: Sequence[Side], confidence: float | None) -> float:
    """Return the confidence of a comparison: that of the user, else that of the runs compared.

    Raises
    ------
    UsageError
        A run states its intervals at another confidence: they cannot be turned into others.
    """
    for ranking in (ranking for side in sides for ranking in side.rankings.values()):
        level = ranking.content["confidence"]
        if confidence is None:
            confidence = level
        elif not math.isclose(level, confidence):
            raise UsageError(
                f"{ranking.source} states its intervals at a confidence of {level:g}, not "
                f"{confidence:g}; leave --confidence out, or compare runs of one confidence"
            )
    return Spec().confidence if confidence is None else confidence


def _question(sides: Sequence[Side], question: str | None) -> str:
    """Return the question that scores decide: that of the user, else the usual one.

    Raises
    ------
    UsageError
        A run's intervals answer another: they cannot be turned into those of the user's.
    """
    for ranking in (ranking for side in sides for ranking in side.rankings.values()):
        answered, sampled = ranking.content["question"], ranking.content.get("sampled", False)
        # Without sampling, these very answers are what these documents show.
        alike = {answered} if sampled or answered == POPULATION else {BENCHMARK, RUN}
        if question not in (None, *alike):
            raise UsageError(
                f"{ranking.source} answers the question {answered!r}, not {question!r}; leave "
                f"--question out, or compare runs that asked `question: {question}`"
            )
    return question or POPULATION


def _identity_warnings(
    outcome: Logged,
    sides: tuple[ScoreTable | StoredRanking, ScoreTable | StoredRanking],
    names: tuple[str, str],
    paths: tuple[Any, Any],
    accepted: Collection[str],
) -> list[str]:
    """Return what differs between the asking and the scoring of two models, by task.

    Raises
    ------
    UsageError
        A prompt, a target, the scoring or what cuts answers off differs, and that is not accepted.
    """
    # Runs that rank by a weighted mean have several tasks in one outcome.
    stated = (side.tasks if isinstance(side, StoredRanking) else [side.task] for side in sides)
    tasks = dict.fromkeys(task for tasks in stated for task in tasks if task is not None)
    warnings: list[str] = []
    for task in tasks or [None]:
        baseline, candidate = (
            AskedSide.of(side, name, path, task) for side, name, path in zip(sides, names, paths)
        )
        difference, doubt = differing_prompts(baseline, candidate, task, accepted)
        warnings += [f"accepted: {difference}"] if difference else []
        warnings += [doubt] if doubt else []
        warnings += differing_scoring(
            baseline.scoring(names[0], outcome, task),
            candidate.scoring(names[1], outcome, task),
            accepted,
            not doubt,
        )
    return warnings
