"""The sides of a comparison: logs, score tables and outputs of adaptive runs, read alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..content import RESULT, RankingContent
from ..errors import NoScoresFoundError, RunError, ScaleError, ScoreTableError, UsageError
from ..metrics.registry import known_scale
from ..metrics.scale import Scale, differing_scales
from ..options import Values
from ..plugins import did_you_mean
from ..runs.directory import RunDirectory, read_object
from ..scores import ScoreTable
from ..scores.configuration import model_of, names_by_configuration
from ..scores.prompts import Marks, mark_of, requests_of, text_of_requests
from ..scores.readers.logged_runs import find_runs, results_files
from ..scores.readers.samples import sound_rows
from ..scores.reading import OF_METRIC_TABLE, UNNAMED, YAML, Logged, Query
from ..scores.table import reader_of
from ..shown import plural, some
from .result import contradictory_pairs
from .scored import runs_by_model
from .spec import Spec, content_of, without_aliases
from .stored import StoredRanking, stored_rankings

#: What the two sides are called, in the order of the arguments of `compare`.
SIDES = ("baseline", "candidate")
#: If no score of one side is above the first, and some of the other are above the second, the sides
#: may be on two scales, such as 0 to 1 and 0 to 100; see `doubt_of_scale`.
_UNIT, _FAR = 1.0, 10.0
#: Scores of one side that, if all are 0 or one other number, show that there is right and wrong.
_ENOUGH = 10
#: The value of a field that a document lacks.
NO_VALUE = "(none)"
#: Fields of documents by doc_id.
Fields = Mapping[Any, Mapping[str, Any]]
#: What a side holds of an outcome: scores, or what adaptive runs state of it.
ScoresOrRanking = ScoreTable | StoredRanking


@dataclass
class Side:
    """One side of a comparison of stored results.

    Attributes
    ----------
    source : ScoreTable or path
    role : str
        ``"baseline"`` or ``"candidate"``.
    requested_model : str or None
        The model to compare, if the user names one.
    rankings : dict of Logged to StoredRanking
        What adaptive runs state; empty if the side holds scores.
    warning : str
        Warning about a folder of logs that turns out to hold estimates; else "".
    """

    source: ScoreTable | str | Path
    role: str
    requested_model: str | None = None
    rankings: dict[Logged, StoredRanking] = field(default_factory=dict)
    warning: str = ""

    def __post_init__(self) -> None:
        """Read the rankings that the source states; of several runs of a model, the latest."""
        files = self._files_of_estimates()
        contents = [_content(file) for file in files]
        names = names_by_configuration(
            [(model_of(content, file.parent), content) for file, content in zip(files, contents)]
        )
        latest_file: dict[tuple[Logged, str], str] = {}  # of each model's estimate of an outcome
        replaced_files = set()
        # Files come in the order of their dates.
        for ranking in chain.from_iterable(map(stored_rankings, files, names)):
            _require_consistent(ranking)
            for model in ranking.content["models"]:
                if (earlier_file := latest_file.get((ranking.outcome, model))) is not None:
                    replaced_files.add(earlier_file)
                latest_file[ranking.outcome, model] = ranking.source
            # Each file of an adaptive `run` states one model; together they are one ranking.
            earlier = self.rankings.get(ranking.outcome, ranking)
            require_one_scale(ranking.outcome.metric, earlier, ranking)
            require_comparable_intervals(earlier, ranking)
            models = {**earlier.content["models"], **ranking.content["models"]}
            merged: RankingContent = {**ranking.content, "models": models}
            sources = {**earlier.sources, **ranking.sources}
            self.rankings[ranking.outcome] = replace(ranking, content=merged, sources=sources)
        if replaced_files:
            self.warning += (
                f"; {plural(len(replaced_files), 'earlier run')} left out, as a later one is of "
                "the same model and settings"
            )

    def _files_of_estimates(self) -> list[Path]:
        """Return the files or run directories that state rankings; none if the source has scores.

        Warn of a folder of logs that turns out to hold estimates.
        """
        if isinstance(self.source, ScoreTable):
            return []
        path = Path(self.source)
        if path.is_file():
            content = _content(path) if path.suffix == ".json" else {}
            return [path] if "adaptive" in content or "pairwise" in content else []
        # `stored_rankings` reads the journal if the result is missing or older.
        if (path / RESULT).is_file() or RunDirectory(path).journal.exists():
            return [path]
        files = results_files(path) if path.is_dir() else []
        # A full result among them makes the folder one of scores, which say more than estimates.
        if not all(map(_is_estimate, files)):
            return []
        if files:
            self.warning = (
                f"{path} holds adaptive runs: their estimates of the full benchmark are "
                "compared, by their intervals"
            )
        return files

    @property
    def outcomes(self) -> list[Logged]:
        """The outcomes that it holds; of a table that names no task, just the metric.

        Raises
        ------
        ScoreTableError
            The logs hold no results, or cannot be read.
        """
        if isinstance(self.source, ScoreTable):
            return [Logged(self.source.task, self.source.metric, self.source.filter)]
        if self.rankings:
            return list(self.rankings)
        path = Path(self.source)
        try:
            return reader_of(path).outcomes(path)
        except NoScoresFoundError as error:
            # Of a results file the error says what is wrong; a folder without one looks like a run
            # that failed.
            if not path.is_dir() or results_files(path):
                raise
            raise ScoreTableError(
                f"{path}: the {self.role} holds no results; its run failed or has not finished "
                f"({error.remedy})"
            ) from None

    def of(self, outcome: Logged, query: Query) -> ScoresOrRanking:
        """Return what it holds of an outcome, read on the scale that a query states.

        Raises
        ------
        ScaleError
            Nothing states the scale of the scores.
        UsageError
            It states another scale than the user.
        """
        if isinstance(self.source, ScoreTable):
            if self.source.guessed:
                raise ScaleError(
                    f"the scale of {self.source.metric!r} of the {self.role} was guessed when its "
                    "table was read; state it there: range= and lower_is_better="
                )
            self._require_as_stated(self.source.metric, self.source.scale, query)
            return self.source
        if self.rankings:
            ranking = next(
                stored for logged, stored in self.rankings.items() if _may_be_same(logged, outcome)
            )
            self._require_as_stated(outcome.metric, ranking.scale, query)
            return ranking
        # Which side is better depends on the direction of the scale, so no scale is guessed.
        path = Path(self.source)
        return reader_of(path).read(
            path, outcome.query(replace(query, guess=False, selected=True)), None
        )

    def _require_as_stated(self, metric: str, scale: Scale, query: Query) -> None:
        """Refuse a scale that the user states and that is not the one of the source.

        Figures that are computed already cannot be read on another scale.
        """
        is_same_direction = query.lower_is_better in (None, not scale.higher_is_better)
        if query.range not in (None, scale.ends) or not is_same_direction:
            raise UsageError(
                f"the {self.role} states the scale of {metric}, {scale.describe()}: leave --range "
                "(range=, lower_is_better=) out"
            )

    def chosen_model(self, models: Iterable[str]) -> str:
        """Return which of some models to compare: the one that the user names, or the only one.

        Raises
        ------
        UsageError
            The user names none and there is not exactly one, or no model has the name.
        """
        names = list(models)
        if self.requested_model is None:
            if len(names) == 1:
                return names[0]
            raise UsageError(
                f"the {self.role} holds {len(names)} models ({some(names, 8)}); name the two with "
                "--models BASELINE,CANDIDATE"
            )
        if self.requested_model not in names:
            suggestion = did_you_mean(self.requested_model, names)
            raise UsageError(f"the {self.role} has no model {self.requested_model!r}{suggestion}")
        return self.requested_model


def models_in(source: str | Path) -> tuple[str, ...]:
    """Return the models of the first outcome that a source of scores holds; of a YAML file none."""
    if Path(source).suffix in YAML:
        return ()
    side = Side(source, SIDES[0])
    return tuple(side.of(side.outcomes[0], Query()).models)


def require_one_scale(
    metric: str, first_side: ScoreTable | StoredRanking, second_side: ScoreTable | StoredRanking
) -> Scale:
    """Return the scale that both sides have.

    Raises
    ------
    UsageError
        Ends or direction differ, so that one score does not mean the same on both sides.
    """
    sides = ((_name_of(side), side.scale) for side in (first_side, second_side))
    if difference := differing_scales(metric, *sides):
        raise UsageError(
            f"the two sides have {difference}; state the scale that both have: --range "
            "WORST,BEST (range=, lower_is_better=)"
        )
    return first_side.scale


def doubt_of_scale(
    tables: Sequence[ScoreTable],
    names: Sequence[str],
    scale_by_user: bool,
) -> str:
    """Return why two sides that are read on one scale may have two; "" where nothing says so.

    A weak model may score below 1 of 100, so scores on 0 to 1 beside some above 10 are no proof.
    Of metrics without an upper end, half of the scores have to lie there, as a few may.

    Parameters
    ----------
    tables : (ScoreTable, ScoreTable)
    names : (str, str)
        The model of each that is compared.
    scale_by_user : bool
        Whether the user states the scale.

    Raises
    ------
    ScaleError
        Nothing but the metric's name tells the scale. Or ten or more scores are 0 or one other
        number, and those of the other side 0 or 1: right and wrong on two scales. Or the metric is
        known to have the scale of one side, which the scores of the other leave.
    """
    sides = [_ModelScores.of(table, name) for table, name in zip(tables, names)]
    # Without any score nothing is compared.
    if not all(side.scores.size for side in sides):
        return ""
    low, high = sorted(sides, key=lambda side: side.top)
    if not _far_apart(low, high, tables[0].scale):
        return ""
    metric, scale = tables[0].metric, tables[0].scale.describe()
    doubt = (
        f"{metric} of {low.model} lies within 0 to 1, that of {high.model} reaches {high.top:g}, "
        f"and both are read as {scale}"
    )
    _refuse_two_scales(low, high, doubt, metric, tables[0].task)
    by_name = any(OF_METRIC_TABLE in warning for table in tables for warning in table.warnings)
    if by_name and not scale_by_user:
        raise ScaleError(f"{doubt}; state the scale that both have: --range WORST,BEST (range=)")
    return f"{doubt}: if they are on different scales, the difference means nothing"


class _ModelScores(NamedTuple):
    """The scores of the model that one side of a comparison names."""

    model: str
    scores: NDArray[np.float64]

    @classmethod
    def of(cls, table: ScoreTable, model: str) -> _ModelScores:
        """Return the scores that a table has of a model."""
        raw = table.select([model]).raw
        return cls(model, raw[np.isfinite(raw)])

    @property
    def top(self) -> float:
        """The highest score."""
        return float(self.scores.max())


def _far_apart(low: _ModelScores, high: _ModelScores, scale: Scale) -> bool:
    """Whether one side lies within 0 to 1, and the other above 10."""
    reach = high.top if scale.cap is None else float(np.median(high.scores))
    return low.scores.min() >= 0.0 and 0.0 < low.top <= _UNIT < _FAR < reach


def _refuse_two_scales(
    low: _ModelScores, high: _ModelScores, doubt: str, metric: str, task: str | None
) -> None:
    """Refuse scores that prove a doubt of their scale: right and wrong, or a metric's known scale.

    Raises
    ------
    ScaleError
    """
    binary = set(low.scores) <= {0.0, 1.0} and set(high.scores) <= {0.0, high.top}
    if binary and high.scores.size >= _ENOUGH:
        raise ScaleError(
            f"{doubt}, but they are 0 or 1 and 0 or {high.top:g}; write both on one scale"
        )
    known = known_scale(metric, task=task or "")
    if known is not None and known.holds(low.scores) and not known.holds(high.scores):
        raise ScaleError(
            f"{doubt}, but {metric} is known to have {known.describe()}, as {low.model} does; "
            "write both on one scale"
        )


def require_comparable_intervals(first_run: StoredRanking, second_run: StoredRanking) -> None:
    """Refuse adaptive runs whose intervals do not mean the same.

    Raises
    ------
    UsageError
        Their confidence, or the question that they decide, differs.
    """
    for key in ("confidence", "question"):
        first, second = first_run.content.get(key), second_run.content.get(key)
        if first != second:
            raise UsageError(
                f"{first_run.source} and {second_run.source} differ in {key} ({first} and "
                f"{second}), so their intervals cannot be compared; run both with one {key}"
            )


def _name_of(side: ScoreTable | StoredRanking) -> str:
    """Return what messages call a side: its file, or the first models of its table."""
    return side.source if isinstance(side, StoredRanking) else ", ".join(side.models[:3])


def _content(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; {} if it holds none."""
    with suppress(RunError):
        return read_object(path)
    return {}


def _is_estimate(file: Path) -> bool:
    """Whether a results file comes from an adaptive run that left out documents."""
    blocks = (_content(file).get("adaptive") or {}).values()
    estimated = [block for block in blocks if isinstance(block, dict) and "estimate" in block]
    # Repeats are an estimate even with all documents asked: the samples have first answers alone.
    return any(block["items"] < block["items_total"] or "answers" in block for block in estimated)


def without_files(sides: Sequence[Any], settings: Mapping[str, Any]) -> tuple[list[Any], Values]:
    """Return the sides with each YAML file of `rank` replaced by its model, and all settings.

    Parameters
    ----------
    sides : sequence
        What is compared; some may be YAML files.
    settings : mapping
        Settings that were stated beside them. They count before those of files.

    Raises
    ------
    UsageError
        A file holds several models, or two state different values of one key.
    """
    sources, by_flags, files = [], _flat(settings), []
    joined = dict(by_flags)
    for side in sides:
        if not (isinstance(side, (str, Path)) and Path(side).suffix in YAML):
            sources.append(side)
            continue
        content = content_of(Path(side))
        spec = Spec.read(side).require_ranking()
        if len(spec.models) != 1:
            raise UsageError(
                f"{side}: a side of a comparison is one model; leave one under `models:`"
            )
        sources += content["models"]
        files.append(str(side))
        # The keys that the file states, and not the defaults of all others.
        stated_keys = [
            key
            for key, value in without_aliases(content).items()
            if value is not None and key != "models"
        ]
        for key, value in _flat({key: getattr(spec, key) for key in stated_keys}).items():
            if key not in by_flags and joined.setdefault(key, value) != value:
                raise UsageError(
                    f"{' and '.join(files)} state different values of `{key}:`; both models "
                    "are asked the same way, so write one value in both files"
                )
    harness_keys = [key for key in joined if key.startswith("harness.")]
    harness = {key.removeprefix("harness."): joined.pop(key) for key in harness_keys}
    return sources, {**joined, **({"harness": harness} if harness else {})}


def _flat(values: Mapping[str, Any]) -> Values:
    """Return options in one level, those of ``harness`` as ``harness.KEY``."""
    run_options = {key: value for key, value in values.items() if key != "harness"}
    harness_options = values.get("harness") or {}
    return run_options | {f"harness.{key}": value for key, value in harness_options.items()}


class _Request(NamedTuple):
    """A metric that a user names, and the task that it is of; "" names every metric."""

    name: str
    task: str | None

    @property
    def outcome(self) -> Logged:
        """The outcome that the name spells, without a filter if it names none."""
        metric, _, filter = self.name.partition(",")
        return Logged(self.task, metric, filter or None)

    def includes(self, outcome: Logged) -> bool:
        """Whether this asks for an outcome."""
        if not self.name:
            return _may_be_same(outcome, replace(outcome, task=self.task))
        # As messages write an outcome, its task comes first: "gsm8k/exact_match,strict-match".
        as_written = self.name == outcome.name and self.task in (None, outcome.task)
        return as_written or _may_be_same(outcome, self.outcome)


def shared_outcomes(
    sides: Sequence[Side], metrics: Sequence[str], task: str | None
) -> dict[Logged, str]:
    """Return the outcomes that both sides have, each with the name in `metrics` that requests it.

    Parameters
    ----------
    sides : sequence of Side
    metrics : sequence of str
        A metric stands for all of its filters unless it names one: ``"exact_match,strict-match"``;
        the task may stand before it, as messages write it: ``"gsm8k/exact_match"``.
        Without any, all are requested, by "".
    task : str or None

    Raises
    ------
    UsageError
        The sides share none, lack one that is requested, or are logs that state none.
    """
    requests = [_Request(name, task) for name in metrics or ("",)]
    first, second = (_outcomes_of(side, requests, task) for side in sides)
    in_both = [outcome for outcome in first if any(_may_be_same(outcome, peer) for peer in second)]
    shared: dict[Logged, str] = {}
    for outcome in in_both:
        if names := [request.name for request in requests if request.includes(outcome)]:
            shared[outcome] = max(names, key=len)  # the one that says most
    unmet = [request for request in requests if not any(map(request.includes, in_both))]
    if unmet or not shared:
        raise _nothing_shared(sides, first, second, unmet if metrics else [], task)
    return shared


def _outcomes_of(side: Side, requests: Sequence[_Request], task: str | None) -> list[Logged]:
    """Return the outcomes that a side states, or those that are requested if it states none."""
    requested = [request.outcome for request in requests if request.name]
    outcomes = side.outcomes or requested
    # A file whose column is merely called "score" is of the metric that is asked for; a run or a
    # table in memory has the scale of its own metric.
    is_of_file = not (side.rankings or isinstance(side.source, ScoreTable))
    unnamed = is_of_file and {outcome.metric for outcome in outcomes} == {UNNAMED}
    if len(requested) == 1 and unnamed:
        outcomes = [replace(outcome, metric=requested[0].metric) for outcome in outcomes]
    if not outcomes and not isinstance(side.source, ScoreTable):
        notes = find_runs(Path(side.source), task)[1]
        reasons = f" ({'; '.join(notes)})" if notes else ""
        raise UsageError(f"the {side.role} states no metric{reasons}; name it with --metric")
    return list(outcomes)


def _nothing_shared(
    sides: Sequence[Side],
    first: Sequence[Logged],
    second: Sequence[Logged],
    unmet: Sequence[_Request],
    task: str | None,
) -> UsageError:
    """Return the error that says what two sides do not share, and what they hold."""
    outcomes = [*first, *second]
    what, hint = f"no metric {unmet[0].name!r}" if unmet else "nothing", ""
    # The task is missing, so that a word about metrics would mislead.
    if task is not None and not {outcome.task for outcome in outcomes} & {task, None}:
        what, group_tasks = f"no task {task!r}", _tasks_of_group(sides, task)
        if group_tasks:
            hint = f"; {task!r} is a group: compare one of its tasks, {some(group_tasks)}"
    # They would share a metric if its answers were filtered in the same way.
    elif not unmet and any(
        _may_be_same(outcome, replace(peer, filter=None)) for outcome in first for peer in second
    ):
        hint = "; they differ in the filter, so score the answers of both by the same"
    names = sorted({outcome.name for outcome in outcomes})
    return UsageError(f"the two sides share {what}; they hold {', '.join(names)}{hint}")


def _tasks_of_group(sides: Sequence[Side], group: str) -> list[str]:
    """Return the tasks of a group that the logs of the sides record; none if there is no such."""
    paths = [Path(side.source) for side in sides if not isinstance(side.source, ScoreTable)]
    groups = (reader_of(path).groups(path).get(group, ()) for path in paths)
    return list(dict.fromkeys(task for tasks in groups for task in tasks))


def _require_consistent(ranking: StoredRanking) -> None:
    """Refuse a result whose pairs contradict its estimates, where no journal tells what is true."""
    run = RunDirectory(Path(ranking.source).parent)
    if "pairwise" in ranking.content and not run.journal.exists():
        for text in contradictory_pairs(ranking.content):
            raise RunError(
                f"{ranking.source} contradicts itself, and no journal tells what is true: {text}"
            )


def warnings_of_lacking(sides: Sequence[Side], shared: Collection[Logged]) -> list[str]:
    """Return a warning for each side that lacks tasks or metrics of the other, naming them."""
    warnings = []
    for side, peer in (sides, sides[::-1]):
        names = [
            outcome.name
            for outcome in peer.outcomes
            if not any(_may_be_same(outcome, shared_outcome) for shared_outcome in shared)
        ]
        # A side that states no outcomes is read for those of the other.
        if names and side.outcomes:
            warnings.append(
                f"not compared, as the {side.role} has no scores of it: {some(names, 8)}"
            )
    return warnings


def _may_be_same(first: Logged, second: Logged) -> bool:
    """Whether two may be the same outcome: a task or filter without a name matches any."""
    return first.metric == second.metric and all(
        None in pair or pair[0] == pair[1]
        for pair in ((first.task, second.task), (first.filter, second.filter))
    )


def names_by_paths(a: Any, b: Any, names: tuple[str, str]) -> tuple[str, str]:
    """Name two sides whose models share a name by their paths, without equal ends of these.

    Sides that have no paths, or the same, keep their `names`.
    """
    if isinstance(a, ScoreTable) or isinstance(b, ScoreTable) or Path(a) == Path(b):
        return names
    first_parts, second_parts = list(Path(a).parts), list(Path(b).parts)
    for end in (0, -1):
        while (
            len(first_parts) > 1 and len(second_parts) > 1 and first_parts[end] == second_parts[end]
        ):
            del first_parts[end], second_parts[end]
    return str(Path(*first_parts)), str(Path(*second_parts))


def fields_of(items: Fields | None, sides: Sequence[Any], task: str | None) -> Fields:
    """Return the fields of each document: those of `items`, else of the documents in the logs.

    Where logs differ in a document, the first in the order of `sides` counts.

    Parameters
    ----------
    items : mapping or None
        ``{doc_id: {field: value}}``.
    sides : sequence
        Paths of logs; anything else is ignored.
    task : str or None
        Task whose logs to read.
    """
    if items is not None:
        return items
    fields: dict[Any, Mapping[str, Any]] = {}
    runs_by_side = (runs_by_model(side, task, other_versions=True) for side in sides)
    for run in chain.from_iterable(runs for by_model in runs_by_side for runs in by_model.values()):
        for row in sound_rows(run.samples):  # the reader of the scores reports damage
            if isinstance(row.get("doc"), dict):
                fields.setdefault(row.get("doc_id"), row["doc"])
    return fields


def prompts_in(side: Any, task: str | None, marks: Marks) -> dict[Any, str]:
    """Return the prompts that logs hold of some documents as texts, by doc_id.

    Parameters
    ----------
    side : path or anything else
        Logs, which alone hold prompts.
    task : str or None
    marks : mapping of doc_id to (str or None)
        Marks of the prompts, which tell apart models and runs that were asked differently.
    """
    texts: dict[Any, str] = {}
    for run in chain.from_iterable(runs_by_model(side, task, other_versions=True).values()):
        for row in sound_rows(run.samples):
            doc_id, requests = row["doc_id"], requests_of(row.get("arguments"))
            # Of several runs in the logs only one asked in the way that is compared.
            if requests and marks.get(doc_id) == mark_of(text := text_of_requests(requests)):
                texts[doc_id] = text
    return texts


def values_of_field(fields: Fields, name: str, ids: Sequence[Any]) -> NDArray[Any]:
    """Return the value of a field for some documents, as text; `NO_VALUE` without one.

    Raises
    ------
    UsageError
        No document has such a field.
    """
    values = [fields.get(doc_id, {}).get(name) for doc_id in ids]
    empty = [value is None or str(value) in ("", "nan") for value in values]
    if all(empty):
        known = sorted({str(field) for doc in fields.values() for field in doc})
        raise UsageError(
            f"no document has a field {name!r}"
            + (f"; there are {some(known, 20)}" if known else "; give items= in Python")
        )
    return np.array(
        [NO_VALUE if is_empty else str(value) for value, is_empty in zip(values, empty)]
    )
