"""How harness logs asked for answers and scored them, which both sides of a comparison share."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..bank.settings import TOKEN_LIMITS, Sampling, differing_generation, sampling
from ..errors import OtherScoringError, ScoreTableError
from ..grouping import grouped
from ..harness import TaskSession
from ..metrics.text_pairs import parts_of
from ..runs.differences import CUT_SHORT, PROMPTS, SCORING_CODE
from ..scores import ScoreTable
from ..scores.prompts import (
    DIGITS,
    WRITTEN,
    Marks,
    differing,
    first_difference,
    generation_of,
    hash_of,
)
from ..scores.readers.comparable_runs import comparable_runs
from ..scores.readers.logged_runs import LoggedRun, can_read, find_runs
from ..scores.readers.samples import SampleRow, rows_of
from ..scores.reading import Logged

#: Keys of a task's configuration: how often an item is asked, its version, what makes its prompts.
_REPEATS = "repeats"
_VERSION = "task_version"
_WRITING = (
    "description", "doc_to_text", "doc_to_choice", "fewshot_delimiter", "target_delimiter",
    "gen_prefix",
)  # fmt: skip
#: How answers are drawn, beside the temperature; servers are not sent it.
_DRAWING = "do_sample"
#: Limits of answers that a model's arguments may state.
_LIMITS = frozenset(TOKEN_LIMITS[:-1])
#: What a metric's entry in a task's configuration says of all documents, not of one.
_OF_THE_MEAN = ("aggregation", "higher_is_better")
#: Where Python kept a function whose code it could not find, which tells nothing.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Discrepancy(NamedTuple):
    """Something in which two sides differ, beside their models.

    Attributes
    ----------
    text : str
    change : str
        What accepts it, as `accept_change` takes it; "" for what is only told.
    rescored : bool
        Whether scoring the answers of both sides anew removes it.
    """

    text: str
    change: str = ""
    rescored: bool = False

    def require_accepted(
        self, accepted: Collection[str], remedy: str = "Ask and score both sides alike"
    ) -> None:
        """Refuse what is neither accepted nor only told.

        Raises
        ------
        OtherScoringError
        """
        if self.change and self.change not in accepted:
            raise OtherScoringError(self.text, remedy, self.change)

    def warning_if_accepted(self, accepted: Collection[str]) -> str:
        """Return a warning of it.

        Raises
        ------
        OtherScoringError
            See `require_accepted`.
        """
        self.require_accepted(accepted)
        part = "part of the difference may come from that"
        return f"accepted: {self.text}" if self.change else f"{self.text}; {part}"


def runs_by_model(
    source: Any, task: str | None, other_versions: bool = False
) -> dict[str, list[LoggedRun]]:
    """Return the logged runs of a task by model, the latest last.

    Parameters
    ----------
    source : path, ScoreTable or anything else
        Logs, or the table that was read from them; anything else has no runs.
    task : str or None
        None is the task of no run.
    other_versions : bool
        Whether to take runs of other versions of the task, which a table of scores leaves out.
    """
    if task is None:
        return {}
    paths = source.sources if isinstance(source, ScoreTable) else [source]
    runs: list[LoggedRun] = []
    for path in (Path(path) for path in paths if isinstance(path, (str, Path))):
        if can_read(path):
            with suppress(ScoreTableError):
                runs += find_runs(path, task)[0]
    runs = runs if other_versions else comparable_runs(runs)[0]
    return grouped((run.model, run) for run in sorted(runs, key=lambda run: run.date))


def documents_of(run: LoggedRun) -> set[Any]:
    """Return the documents that a run has rows of."""
    return {doc_id for doc_id, _ in _logged_by(run).targets}


def sampling_of(table: ScoreTable, name: str) -> Sampling:
    """Return how a model's answers were drawn; its `how` is "" if unknown.

    A table states the generation settings that its models share; those in which they differ are
    part of each model's configuration.
    """
    shared, configuration = table.settings.get("generation_kwargs"), table.configurations.get(name)
    if configuration is None and not isinstance(shared, Mapping):
        return Sampling("", None)
    settings = dict(shared) if isinstance(shared, Mapping) else {}
    for key in ("temperature", "do_sample"):
        # Of a model whose runs differ, one that sampled makes it sampled.
        values = {*(configuration or {}).get(key, "").split(",")} - {"", "usual"}
        settings |= {key: max(values)} if values else {}
    return how_drawn(settings)


def has_sampled_answers(table: ScoreTable, name: str) -> bool:
    """Return whether a model's answers are draws: asked again, it may answer otherwise."""
    return name in table.models_with_repeats or sampling_of(table, name).is_sampled


def how_drawn(settings: Mapping[str, Any]) -> Sampling:
    """Return how logged answers were drawn by their generation settings, as `sampling` does.

    Logs do not say whether a server answered. It is sent no `do_sample`, so a temperature above 0
    counts whatever that says.

    Examples
    --------
    >>> how_drawn({"do_sample": False, "temperature": 0.7}), how_drawn({}).how
    (Sampling(how='sampled', temperature=0.7), 'greedy')
    """
    server_sampling = sampling({"temperature": settings.get("temperature")})
    return server_sampling if server_sampling.is_sampled else sampling(settings)


class Scoring(NamedTuple):
    """How harness logs asked for the answers of a model on a task, and scored them.

    Attributes
    ----------
    documents : LoggedDocuments
    settings : mapping of str to str
        Scoring code, and what the task says of metric, filter and prompts; empty where logs do not
        tell.
    generation : mapping of str to object
        Generation settings.
    earlier : tuple of Scoring
        The same of each earlier run from which some of the model's scores come.
    """

    documents: LoggedDocuments
    settings: Mapping[str, str]
    generation: Mapping[str, object]
    earlier: tuple[Scoring, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether some of the answers are draws."""
        return any(how_drawn(scoring.generation).is_sampled for scoring in (self, *self.earlier))

    @classmethod
    def of(cls, runs: Sequence[LoggedRun], outcome: Logged) -> Scoring:
        """Return how a model was asked and scored by its runs on a task, the latest last."""
        *before, last = runs
        earlier: list[Scoring] = []
        scored: dict[str, set[Any]] = {}  # documents of later runs, by their generation settings
        for run in (last, *reversed(before)):
            run_documents = _logged_by(run)
            # A run counts only for documents that no later run with the same settings has answered.
            documents = scored.setdefault(json.dumps(run.generation, sort_keys=True), set())
            adds = bool(run_documents.targets.keys() - documents)
            # A table takes no scores from an adaptive run.
            if run is not last and not run.adaptive and adds:
                earlier.append(cls._of_runs([run], outcome))
            documents.update(run_documents.targets)
        return cls._of_runs(runs, outcome)._replace(earlier=tuple(earlier))

    @classmethod
    def _of_runs(cls, runs: Sequence[LoggedRun], outcome: Logged) -> Scoring:
        """Return how the last of some runs asked and scored, with the documents of all of them."""
        last = runs[-1]
        documents_by_run = [_logged_by(run) for run in runs]
        texts: dict[Any, str | None] = {}
        targets: dict[Any, str | None] = {}
        for run_documents in documents_by_run:
            texts |= run_documents.texts
            targets |= run_documents.targets
        sent = documents_by_run[-1].generation
        # What the task's configuration states counts over what the requests state, and that over
        # the model's arguments.
        limits = {name: last.configuration[name] for name in _LIMITS & last.configuration.keys()}
        generation = {**limits, **sent, **last.generation}
        # Without a results file nothing states the task's configuration.
        config = last.of_task("configs")
        scoring_settings = _settings_of(config, outcome) if config else {}
        return cls(
            LoggedDocuments(texts, targets, sent),
            {**_version_of(last.settings), **scoring_settings},
            generation,
        )

    @classmethod
    def of_task(cls, session: TaskSession, outcome: Logged, doc_ids: Iterable[Any]) -> Scoring:
        """Return how a loaded task asks and scores some of its documents."""
        hashes = dict(zip(session.doc_ids, session.doc_hashes))
        targets = {
            (doc_id, hashes[doc_id][:DIGITS]): hash_of(session.target(doc_id))[:DIGITS]
            for doc_id in doc_ids
        }
        config = session.config
        generation = config.get("generation_kwargs") or {}
        settings = {**_version_of(session.settings), **_settings_of(config, outcome)}
        return cls(LoggedDocuments({}, targets), settings, generation)

    def _differences_of_documents(
        self, peer: Scoring, names: tuple[str, str]
    ) -> Iterator[Discrepancy]:
        """Yield the first document whose text differs, and the first whose target does."""
        for what, change in (("text", PROMPTS), ("target", SCORING_CODE)):
            marks, peer_marks = (getattr(side.documents, f"{what}s") for side in (self, peer))
            changed, compared = differing(marks, peer_marks)
            # One document shows the difference; the count says how far it goes.
            for document in changed[:1]:
                extent = f"; {len(changed)} of {compared} {what}s differ"
                values = zip((marks[document], peer_marks[document]), names)
                places = " and ".join(f"{mark} in {name}" for mark, name in values)
                yield Discrepancy(
                    f"the {what} of document {document[0]!r} is {places}"
                    f"{extent if len(changed) > 1 else ''}",
                    change,
                    rescored=change == SCORING_CODE,
                )

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> Scoring | None:
        """Return what the settings of a run or a table say; None if there are none."""
        if not settings:
            return None
        generation = settings.get("generation_kwargs") or {}
        return cls(LoggedDocuments({}, {}), _version_of(settings), generation)

    def differences(self, peer: Scoring, names: tuple[str, str]) -> Iterator[Discrepancy]:
        """Yield in what two sides were asked or scored differently, in any of their runs.

        Of documents whose text or target differs, the first is named.

        Parameters
        ----------
        peer : Scoring
            The other side.
        names : (str, str)
            What the two sides are called.
        """
        runs = product((self, *self.earlier), (peer, *peer.earlier))
        yield from dict.fromkeys(
            difference
            for own_run, peer_run in runs
            for difference in own_run._differences_without_earlier(peer_run, names)
        )

    def _differences_without_earlier(
        self, peer: Scoring, names: tuple[str, str]
    ) -> Iterator[Discrepancy]:
        """Yield how two Scorings differ, without their `earlier` ones."""
        yield from self._differences_of_documents(peer, names)
        for key in [key for key in self.settings if key in peer.settings]:
            text, peer_text = self.settings[key], peer.settings[key]
            if text == peer_text:
                continue
            # Another version of the task may change anything, prompts too, so that scoring both
            # sides anew need not remove the difference.
            if key == _VERSION:
                words = f"{key} is {text} in {names[0]} and {peer_text} in {names[1]}"
                yield Discrepancy(words, SCORING_CODE)
                continue
            place = first_difference(text, peer_text)
            words = f"{key} differs between {' and '.join(names)}{place}"
            change = _change_in(key)
            yield Discrepancy(words, change, rescored=change == SCORING_CODE)
        # A setting that cuts answers off (`cuts`) has to be accepted; it is so only if both sides
        # state it.
        for setting in differing_generation(self.generation, peer.generation, (_DRAWING,)):
            yield Discrepancy(setting.in_words(names), CUT_SHORT if setting.cuts else "")
        # `generation` takes a limit from the results file first. The requests beside that file,
        # whose limits `documents.generation` has, may state another.
        for setting in differing_generation(self.documents.generation, peer.documents.generation):
            if setting.cuts:
                yield Discrepancy(setting.in_words(names), CUT_SHORT)


class LoggedDocuments(NamedTuple):
    """Documents of a log by doc_id and mark of their hash, and how their answers were asked for.

    Attributes
    ----------
    texts, targets : mapping of (doc_id, str) to (str or None)
        Marks: of the texts of documents without a hash, and of targets.
    generation : mapping of str to object
        Generation settings as sent.
    """

    texts: Marks
    targets: Marks
    generation: Mapping[str, object] = MappingProxyType({})


def _logged_by(run: LoggedRun) -> LoggedDocuments:
    """Return the documents of a run's samples; the file is read anew only once it has changed."""
    return _documents_of(run.samples, run.samples.stat().st_mtime_ns)


@lru_cache(maxsize=64)  # every metric of a task has the same targets
def _documents_of(samples: Path, modified: int) -> LoggedDocuments:
    """Return the documents of a sample file; by `modified` the cache knows a file written anew."""
    texts: dict[Any, str | None] = {}
    targets: dict[Any, str | None] = {}
    generation: Mapping[str, object] = {}
    for row in (row for _, row in rows_of(samples, "target_hash") if isinstance(row, dict)):
        # With the hash in its key, a document of another text is compared with none.
        document = row["doc_id"], str(hashed := row.get("doc_hash"))[:DIGITS]
        # All rows were asked for with the same settings.
        if not targets:
            generation = generation_of(row.get("arguments"))
        # Texts are compared only where no hash tells documents apart.
        if hashed is None:
            texts[document] = _mark_of(row.get("doc"))
        targets[document] = _mark_of_target(row)
    return LoggedDocuments(texts, targets, generation)


def _mark_of_target(row: SampleRow) -> str | None:
    """Return the mark of a row's target; None if it states none.

    The mark is the beginning of the harness's hash, ``"3f2a90bc"``. Before 0.4.3 the harness wrote
    no hash. JSON may have changed the target itself (a tuple to a list), and with it the hash, so
    its mark begins with ``~``, and only marks that both do are compared.
    """
    hashed = row.get("target_hash")
    return hashed[:DIGITS] if isinstance(hashed, str) else _mark_of(row.get("target"))


def _mark_of(value: Any) -> str | None:
    """Return the mark of what JSON has changed; None of nothing."""
    return None if value is None else WRITTEN + hash_of(str(value))[:DIGITS]


def _version_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the version of a task as a setting of `Scoring`; {} if it is unknown."""
    version = settings.get(_VERSION)
    return {} if version is None else {_VERSION: str(version)}


def _settings_of(config: Mapping[str, Any], outcome: Logged) -> dict[str, str]:
    """Return what a task's configuration says of its scoring and its prompts, as texts."""

    def entry(key: str, default: Mapping[str, Any]) -> str:
        """Return the entry of a list that has the name in `default`, completed by `default`."""
        name_key, name = next(iter(default.items()))
        entries = (entry for entry in config.get(key) or () if isinstance(entry, Mapping))
        settings = next((entry for entry in entries if entry.get(name_key) == name), {})
        stated = {**default, **settings}
        for setting in _OF_THE_MEAN:
            stated.pop(setting, None)
        return _plain(json.dumps(stated, sort_keys=True))

    metric, _ = parts_of(outcome.metric)
    # A task that lists no metrics has those of its kind; one that lists no filters takes the first
    # answer.
    return {
        "process_results": _plain(str(config.get("process_results") or "")),
        f"the setting of metric {outcome.metric}": entry("metric_list", {"metric": metric}),
        f"the setting of filter {outcome.filter}": entry(
            "filter_list", {"name": outcome.filter, "filter": [{"function": "take_first"}]}
        ),
        _REPEATS: str(config.get(_REPEATS) or 1),
        **{key: _plain(repr(config[key])) for key in _WRITING if key in config},
    }


def _change_in(setting: str) -> str:
    """Return the change to accept where a setting of `Scoring` differs; "" if it is only told."""
    if setting == _REPEATS:
        return ""
    return PROMPTS if setting in _WRITING else SCORING_CODE


def _plain(code: str) -> str:
    """Return code without addresses in memory and its spacing, which say nothing of its effect."""
    return " ".join(_ADDRESS.sub("", code).split())
