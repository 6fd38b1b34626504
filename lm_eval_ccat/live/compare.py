"""`compare`: decide whether a candidate is better than a baseline, from stored results or live."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MetricError, ScaleError, UsageError
from ..methods.belief import BENCHMARK, POPULATION, RUN
from ..options import AT_LEAST_0
from ..scores import ScoreTable
from ..scores.reading import Logged, Query, task_name
from ..shown import whole_percent
from .asked import AskedSide, compared_prompts
from .comparison import Compared, Comparison, Gate, require_margin
from .live_comparison import compare_live
from .losses import n_documents_of
from .mean_scores import compare_estimates
from .result import Observer
from .run_documents import on_same_documents, require_one_order
from .scored import differing_scoring
from .shared_documents import Grouping, LoggedSide, SharedDocuments
from .sides import (
    SIDES,
    Fields,
    ScoresOrRanking,
    Side,
    doubt_of_scale,
    names_by_paths,
    require_comparable_intervals,
    require_one_scale,
    shared_outcomes,
    warnings_of_lacking,
    without_files,
)
from .spec import Spec, without_aliases
from .stored import StoredRanking

#: The keys of a configuration that a comparison of stored results has.
_OF_STORED = {"tasks", "metrics", "confidence", "question", "accept_change"}


def compare(
    a: ScoreTable | Mapping[str, Any] | str | Path,
    b: ScoreTable | Mapping[str, Any] | str | Path,
    metric: str | Sequence[str] | Mapping[str, float] | None = None,
    margin: float = 0.0,
    *,
    models: tuple[str | None, str | None] = (None, None),
    by: str | None = None,
    cluster: str | None = None,
    items: Fields | None = None,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
    run_dir: str | Path | None = None,
    observer: Observer | None = None,
    **options: Any,
) -> Comparison:
    """Compare a candidate with a baseline, document by document.

    If a document lacks a score, the interval allows for any score of the scale.

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
    models : (str or None, str or None), optional
        Names of the two models, if a side holds several.
    by, cluster : str, optional
        Field of the documents to group the comparison by, and field whose equal values form a
        cluster.
    items : mapping, optional
        Fields that the logs' documents lack: ``{doc_id: {field: value}}``.
    range, lower_is_better : optional
        As in `ScoreTable.read`.
    run_dir : path, optional
        For live models: directory that keeps their answers; where it holds some already, the
        comparison goes on from them.
    observer : Observer, optional
        For live models: receives warnings and progress.
    **options
        Keys of a configuration of `rank`, which replace those of YAML files. For stored results
        ``task`` (default: all that both sides have), ``confidence`` (two-sided, for each outcome
        and group; default 0.95), ``accept_change`` and ``question``: whether scores decide about
        documents like these, of which the benchmark is a sample (``"population"``, the default),
        about these documents (``"benchmark"``), or about these very answers, even if they are
        sampled (``"run"``). Estimates decide about what their run asked, and live models about
        these documents or answers; another question is refused. For live models also ``harness``,
        ``max_items`` and the like.

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
    AT_LEAST_0.check(margin, "margin")
    named_options = without_aliases({"metric": metric, **options})
    sources, keys = without_files(
        (a, b), {key: value for key, value in named_options.items() if value is not None}
    )
    live = any(isinstance(source, Mapping) for source in sources)
    spec = Spec.read(keys, recorded=not live)  # logs have a task's name, and no file of it
    if len(spec.tasks) > 1:
        raise UsageError("compare takes one task")
    grouping = Grouping(by, cluster, items)
    if live:
        if grouping or range:
            raise UsageError("--by, --cluster and --range are for stored scores")
        return compare_live(sources, models, margin, keys, run_dir, observer)
    if run_dir or keys.keys() - _OF_STORED:
        raise UsageError("--include_path, --max_items and the like are for live models")
    sides = tuple(map(Side, sources, SIDES, models))
    gate = Gate(
        margin, _confidence(sides, keys.get("confidence")), _question(sides, keys.get("question"))
    )
    query = Query(range=range, lower_is_better=lower_is_better)
    return _StoredComparison(sides, gate, query, grouping, spec).result()


@dataclass(frozen=True)
class _StoredComparison:
    """A comparison of two sides that hold scores, or what adaptive runs state.

    Attributes
    ----------
    sides : (Side, Side)
    gate : Gate
    query : Query
        What the user states about the scale.
    grouping : Grouping
    spec : Spec
        Its task and metrics, and the changes that it accepts.
    """

    sides: tuple[Side, ...]
    gate: Gate
    query: Query
    grouping: Grouping
    spec: Spec
    warnings: list[str] = field(default_factory=list)

    def result(self) -> Comparison:
        """Return the comparison on every outcome that both sides have."""
        self.warnings.extend(side.warning for side in self.sides if side.warning)
        task = task_name(self.spec.tasks[0]) if self.spec.tasks else None
        outcomes: list[Compared] = []
        names, refused = ("", ""), None
        shared = shared_outcomes(self.sides, list(self.spec.metrics), task)
        if not (task or self.spec.metrics):
            self.warnings.extend(warnings_of_lacking(self.sides, shared))
        for outcome, requested in shared.items():
            try:
                held = self.sides[0].of(outcome, self.query), self.sides[1].of(outcome, self.query)
            except (MetricError, ScaleError) as error:
                # Only what the user asked for has to be compared.
                if self.spec.metrics:
                    raise
                refused = error
                self.warnings.append(f"{outcome.metric} is left out: {error}")
                continue
            models = self.sides[0].model(held[0].models), self.sides[1].model(held[1].models)
            if outcomes:
                self._require_one_model(outcomes[-1].metric, names, outcome.metric, models)
            names = models
            compared = self._compared(outcome, held, names)
            steered = all(side.steers for side in held if isinstance(side, StoredRanking))
            decisive = self.spec.metrics[requested] > 0.0 if self.spec.metrics else steered
            outcomes.append(replace(compared, decisive=decisive))
        if refused is not None and not outcomes:
            raise refused
        # The other side may lack what steered a run, and something has to decide.
        if not any(compared.decisive for compared in outcomes):
            outcomes = [replace(compared, decisive=True) for compared in outcomes]
        baseline, candidate = names
        if baseline == candidate:
            first_side, second_side = self.sides
            names = names_by_paths(first_side.source, second_side.source, names)
        warnings = list(dict.fromkeys(self.warnings))
        return Comparison(*names, self.gate.margin, self.gate.confidence, outcomes, warnings)

    def _require_one_model(
        self,
        earlier_metric: str,
        earlier_models: tuple[str, str],
        metric: str,
        models: tuple[str, str],
    ) -> None:
        """Refuse a side that holds another model by one metric than by the one before.

        Raises
        ------
        UsageError
        """
        for side, earlier_model, model in zip(self.sides, earlier_models, models):
            if earlier_model != model:
                raise UsageError(
                    f"the {side.role} holds {earlier_metric} of {earlier_model} and {metric} of "
                    f"{model}: compare one model, by its metric (--metric)"
                )

    def _compared(
        self, outcome: Logged, held: tuple[ScoresOrRanking, ScoresOrRanking], names: tuple[str, str]
    ) -> Compared:
        """Compare two models on an outcome, by what their sides hold of it."""
        (first, second), sources = held, [side.source for side in self.sides]
        scale = require_one_scale(outcome.metric, first, second)
        require_margin(self.gate.margin, outcome.metric, scale)
        if isinstance(first, StoredRanking) and isinstance(second, StoredRanking):
            require_comparable_intervals(first, second)
        if isinstance(first, ScoreTable) and isinstance(second, ScoreTable):
            require_one_order(first, second)
        accepted = self.spec.accept_change
        self.warnings.extend(_differences_in_asking(outcome, held, names, sources, accepted))
        if isinstance(first, ScoreTable) and isinstance(second, ScoreTable):
            scale_by_user = self.query.range is not None
            if doubt := doubt_of_scale((first, second), names, sources, scale_by_user):
                self.warnings.append(doubt)
            logged_sides = [
                LoggedSide(*side) for side in zip(SIDES, names, (first, second), sources)
            ]
            documents = SharedDocuments.of(logged_sides, self.warnings)
            compared = documents.compared(self.gate, self.grouping, sources, self.warnings)
            # No difference was seen, which is not the same as none.
            if np.array_equal(documents.baseline, documents.candidate):
                self.warnings.extend(_doubt_of_equal_scores(compared, scale.span))
            return replace(compared, n_items=n_documents_of(sources, outcome.task))
        # Estimates are of the whole benchmark, not of its parts.
        if self.grouping:
            raise UsageError("--by and --cluster need the scores of both sides, not an estimate")
        first, second = on_same_documents(first, second, names, self.warnings)
        return compare_estimates(first, second, names, self.gate)


def _doubt_of_equal_scores(compared: Compared, span: float) -> list[str]:
    """Warn, where all scores of two models are equal, that further documents may still differ.

    The upper end of their difference, over the `span` of the scale, is the largest share that may.
    Nothing is said if the question is about these very documents.
    """
    overall, share = compared.overall, compared.overall.high / span
    if compared.question != POPULATION or share == 1.0:
        return []
    return [
        f"all {overall.documents:,} scores are equal; up to {whole_percent(share)}% of documents "
        f"like these may still differ, so a margin below {overall.high:.2g} may not be kept"
    ]


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


def _differences_in_asking(
    outcome: Logged,
    held: tuple[ScoresOrRanking, ScoresOrRanking],
    names: tuple[str, str],
    paths: Sequence[Any],
    accepted: Collection[str],
) -> list[str]:
    """Return what differs between the asking and the scoring of two models, by task.

    Raises
    ------
    UsageError
        A prompt, a target, the scoring or what cuts answers off differs, and that is not accepted.
    """
    # Runs that rank by a weighted mean have several tasks in one outcome.
    by_side = (side.tasks if isinstance(side, StoredRanking) else [side.task] for side in held)
    tasks = dict.fromkeys(task for tasks in by_side for task in tasks if task is not None)
    warnings: list[str] = []
    for task in tasks or [None]:
        baseline, candidate = (
            AskedSide.of(side, name, path, task) for side, name, path in zip(held, names, paths)
        )
        prompts = compared_prompts(baseline, candidate, task, accepted)
        warnings += [f"accepted: {prompts.difference}"] if prompts.difference else []
        warnings += [prompts.doubt] if prompts.doubt else []
        warnings += differing_scoring(
            baseline.scoring(names[0], outcome, task),
            candidate.scoring(names[1], outcome, task),
            accepted,
            prompts_known=not prompts.doubt,
        )
    return warnings
