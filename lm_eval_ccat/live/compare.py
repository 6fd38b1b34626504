"""`compare`: decide whether a candidate is better than a baseline, from stored results or live."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import MetricError, ScaleError, UsageError
from ..methods.belief import BENCHMARK, POPULATION, RUN
from ..options import AT_LEAST_0
from ..scores import ScoreTable
from ..scores.reading import Logged, Query, task_name
from ..shown import first_of, whole_percent
from .asked import AskedSide, differences_in_asking
from .comparison import Compared, Comparison, Gate, require_margin
from .live_comparison import compare_live
from .losses import n_documents_of
from .mean_scores import compare_estimates
from .result import FEWEST_ITEMS, Observer
from .run_documents import on_same_documents, require_one_order
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
    """Say whether a candidate is better than a baseline, worse or as good, and by how much.

    Scores are compared document by document. If a document lacks a score, the interval of the
    difference allows for any score of the scale.

    Parameters
    ----------
    a, b : ScoreTable, path or mapping
        Baseline and candidate. Each is one of these:

        - scores: harness logs or a score table;
        - estimates: a run directory of ``rank``, or results of ``run --adaptive`` (a file, or a
          folder of nothing else);
        - a live model: ``{"model": "hf", "model_args": {...}}``, or a YAML file of `rank` with one
          model. It is asked random documents until the difference is known.
    metric : str, sequence of str or mapping of str to float, optional
        Metrics that decide, of all filters or of one (``"exact_match,strict-match"``); those of
        weight 0 (``"chrf=0"`` in a sequence) are only reported.
        Default: every metric that both sides have; of an adaptive run, only the metrics that
        steered it decide.
    margin : float, optional
        Largest acceptable loss, on the metric's own scale.
    models : (str or None, str or None), optional
        Names of the two models, if a side holds several.
    by : str, optional
        Field of the documents: those with equal values are also compared as a group of their own.
    cluster : str, optional
        Field of the documents: the errors of those with equal values are taken to be related.
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
        Keys of a configuration of `rank`, which replace those of YAML files:

        - ``task``; default: all tasks that both sides have;
        - ``confidence``, two-sided, for each outcome and group; default 0.95;
        - ``accept_change``: differences between the sides that are accepted;
        - ``question``: whether the comparison is about documents like these, of which the benchmark
          is a sample (``"population"``, the default for scores), about these documents
          (``"benchmark"``), or about these very answers, even if they are sampled (``"run"``). Of
          estimates it is the question of their run, of live models one of the last two;
        - for live models also ``harness``, ``max_items`` and the like.

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
    # Logs name a task without its file: as in what was recorded, no file is looked for.
    spec = Spec.read(keys, recorded=not live)
    if len(spec.tasks) > 1:
        raise UsageError("compare takes one task")
    grouping = Grouping(by, cluster, items)
    if live:
        if grouping or range or lower_is_better is not None:
            raise UsageError("--by, --cluster and --range (lower_is_better=) are for stored scores")
        return compare_live(sources, models, margin, keys, run_dir, observer)
    if run_dir or keys.keys() - _OF_STORED:
        raise UsageError("--include_path, --max_items and the like are for live models")
    sides = tuple(map(Side, sources, SIDES, models))
    gate = Gate(
        margin, _confidence(sides, keys.get("confidence")), _question(sides, keys.get("question"))
    )
    query = Query(range=range, lower_is_better=lower_is_better)
    return _StoredComparison(sides, gate, query, grouping, spec).result()


class _HeldOutcome(NamedTuple):
    """What two sides hold of an outcome.

    Attributes
    ----------
    outcome : Logged
    requested_as : str
        The metric by which the user requests it; "" if none is named.
    sides : (ScoreTable or StoredRanking, ScoreTable or StoredRanking)
        What the baseline and the candidate hold.
    models : (str, str)
        The model of each.
    """

    outcome: Logged
    requested_as: str
    sides: tuple[ScoresOrRanking, ScoresOrRanking]
    models: tuple[str, str]


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
    warnings : list of str
        What is to be said of the whole comparison; `result` fills it.
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
        shared = shared_outcomes(self.sides, list(self.spec.metrics), task)
        # A user who names nothing expects all to be compared.
        if not (task or self.spec.metrics):
            self.warnings.extend(warnings_of_lacking(self.sides, shared))
        outcomes: list[Compared] = []
        too_few: list[Compared] = []
        models = "", ""
        warnings_by_outcome: dict[str, list[str]] = {}
        for held in self._held(shared):
            if outcomes:
                self._require_one_model(outcomes[-1].metric, models, held)
            models = held.models
            compared = self._compared(held, warnings_by_outcome)
            compared = replace(compared, decisive=self._is_decisive(held))
            outcomes.append(compared)
            # A ranking shows no score of a task that a few items happen to give.
            if not compared.decisive and _has_few_items(held, compared):
                too_few.append(compared)
        if any(compared.decisive for compared in outcomes):
            outcomes = [compared for compared in outcomes if compared not in too_few]
            self.warnings.extend(
                f"{compared.name} is left out: too few items ({compared.overall.documents})"
                for compared in too_few
            )
        # The other side may lack what steered a run, and something has to decide.
        else:
            outcomes = [replace(compared, decisive=True) for compared in outcomes]
        baseline, candidate = models
        # Two sides of one name are told apart by where they lie.
        if baseline == candidate:
            models = names_by_paths(self.sides[0].source, self.sides[1].source, models)
        warnings = list(dict.fromkeys([*self.warnings, *_with_outcomes(warnings_by_outcome)]))
        return Comparison(*models, self.gate.margin, self.gate.confidence, outcomes, warnings)

    def _held(self, shared: Mapping[Logged, str]) -> Iterator[_HeldOutcome]:
        """Yield what both sides hold of each outcome; warn of those that cannot be read.

        Parameters
        ----------
        shared : mapping of Logged to str
            The outcomes, and as which metric the user requested each.

        Raises
        ------
        MetricError, ScaleError
            An outcome that the user requested, or every outcome, cannot be read.
        """
        errors: list[MetricError | ScaleError] = []
        for outcome, requested_as in shared.items():
            try:
                first, second = (side.of(outcome, self.query) for side in self.sides)
            except (MetricError, ScaleError) as error:
                # Only what the user names has to be compared.
                if self.spec.metrics:
                    raise
                errors.append(error)
                self.warnings.append(f"{outcome.metric} is left out: {error}")
                continue
            models = (side.models for side in (first, second))
            baseline, candidate = map(Side.chosen_model, self.sides, models)
            yield _HeldOutcome(outcome, requested_as, (first, second), (baseline, candidate))
        if errors and len(errors) == len(shared):
            raise errors[-1]

    def _is_decisive(self, held: _HeldOutcome) -> bool:
        """Whether an outcome decides: one with a weight, or all that steered an adaptive run."""
        if self.spec.metrics:
            return self.spec.metrics[held.requested_as] > 0.0
        return all(part.steers for part in held.sides if isinstance(part, StoredRanking))

    def _require_one_model(
        self, earlier_metric: str, earlier_models: tuple[str, str], held: _HeldOutcome
    ) -> None:
        """Refuse a side that holds another model by one metric than by the one before.

        Raises
        ------
        UsageError
        """
        for side, earlier_model, model in zip(self.sides, earlier_models, held.models):
            if earlier_model != model:
                raise UsageError(
                    f"the {side.role} holds {earlier_metric} of {earlier_model} and "
                    f"{held.outcome.metric} of {model}: compare one model, by its metric (--metric)"
                )

    def _compared(self, held: _HeldOutcome, warnings_by_outcome: dict[str, list[str]]) -> Compared:
        """Compare two models on an outcome, by what their sides hold of it.

        What is to be said of it goes to `warnings_by_outcome`, under the outcome's name.
        """
        outcome, names, sources = held.outcome, held.models, [side.source for side in self.sides]
        warnings = warnings_by_outcome.setdefault(outcome.name, [])
        first, second = held.sides
        scale = require_one_scale(outcome.metric, first, second)
        require_margin(self.gate.margin, outcome.metric, scale)
        if isinstance(first, StoredRanking) and isinstance(second, StoredRanking):
            require_comparable_intervals(first, second)
        if isinstance(first, ScoreTable) and isinstance(second, ScoreTable):
            require_one_order(first, second)
        accepted = self.spec.accept_change
        warnings.extend(_differences_in_asking(held, sources, accepted))
        if isinstance(first, ScoreTable) and isinstance(second, ScoreTable):
            scale_by_user = self.query.range is not None
            if doubt := doubt_of_scale((first, second), names, scale_by_user):
                warnings.append(doubt)
            logged_sides = [
                LoggedSide(*side) for side in zip(SIDES, names, (first, second), sources)
            ]
            documents = SharedDocuments.of(logged_sides, warnings)
            compared = documents.compared(self.gate, self.grouping, sources, warnings)
            # No difference was seen, which is not the same as none.
            if np.array_equal(documents.baseline, documents.candidate):
                warnings.extend(_doubt_of_equal_scores(compared, scale.span))
            return replace(compared, n_items=n_documents_of(sources, outcome.task))
        # An estimate rests on what its run accepted.
        for side in held.sides:
            if isinstance(side, StoredRanking):
                texts = side.content.get("warnings", ())
                warnings += [text for text in texts if text.startswith("accepted: ")]
        # Estimates are of the whole benchmark, not of its parts.
        if self.grouping:
            raise UsageError("--by and --cluster need the scores of both sides, not an estimate")
        first, second = on_same_documents(first, second, names, warnings)
        return compare_estimates(first, second, names, self.gate)


def _has_few_items(held: _HeldOutcome, compared: Compared) -> bool:
    """Whether runs asked fewer items of an outcome than `FEWEST_ITEMS`, and than there are."""
    runs = [side for side in held.sides if isinstance(side, StoredRanking)]
    n_items = [int(side.content["items_of_benchmark"]) for side in runs]
    return bool(runs) and compared.overall.documents < min(FEWEST_ITEMS, *n_items)


def _with_outcomes(warnings_by_outcome: Mapping[str, Sequence[str]]) -> list[str]:
    """Return warnings, each with the outcomes that it is about unless it is about all."""
    outcomes_by_text: dict[str, dict[str, None]] = {}
    for outcome, texts in warnings_by_outcome.items():
        for text in texts:
            outcomes_by_text.setdefault(text, {})[outcome] = None
    return [
        text
        if len(outcomes) == len(warnings_by_outcome)
        else f"{first_of(list(outcomes), 3)}: {text}"
        for text, outcomes in outcomes_by_text.items()
    ]


def _doubt_of_equal_scores(compared: Compared, span: float) -> list[str]:
    """Return a warning, where all scores are equal, that further documents may still differ.

    The upper end of their difference, over the `span` of the scale, is the largest share that may.
    Nothing is said if the question is about these very documents.
    """
    overall, share = compared.overall, compared.overall.high / span
    # An interval over the whole scale says that nothing is known, which needs no figure.
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
        confidence_of_run = ranking.content["confidence"]
        if confidence is None:
            confidence = confidence_of_run
        elif not math.isclose(confidence_of_run, confidence):
            raise UsageError(
                f"{ranking.source} states its intervals at a confidence of {confidence_of_run:g}, "
                f"not {confidence:g}; leave --confidence out, or compare runs of one confidence"
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
    held: _HeldOutcome, paths: Sequence[Any], accepted: Collection[str]
) -> list[str]:
    """Return what differs between the asking and the scoring of two models, by task.

    Raises
    ------
    UsageError
        A prompt, a target, the scoring or what cuts answers off differs, and that is not accepted.
    """
    # Runs that rank by a weighted mean have several tasks in one outcome.
    by_side = (
        side.tasks if isinstance(side, StoredRanking) else [side.task] for side in held.sides
    )
    tasks = dict.fromkeys(task for tasks in by_side for task in tasks if task is not None)
    warnings: list[str] = []
    # A score table may name no task.
    for task in tasks or [None]:
        baseline, candidate = (
            AskedSide.of(side, model, path, task)
            for side, model, path in zip(held.sides, held.models, paths)
        )
        warnings += differences_in_asking(baseline, candidate, held.outcome, accepted)
    return warnings
