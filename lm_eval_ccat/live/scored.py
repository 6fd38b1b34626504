"""How harness logs scored answers: what is compared must have equal targets and scoring."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError
from ..harness import TaskSession
from ..metrics.text_pairs import parts_of
from ..runs.book import SCORING_CODE
from ..scores.prompts import DIGITS, WRITTEN, Marks, differing, first_place, hash_of
from ..scores.readers.logged_runs import LoggedRun
from ..scores.readers.samples import SampleRow, rows_of
from ..scores.reading import Logged

#: What a metric's entry in a task's configuration says of all documents, not of one.
_OF_THE_MEAN = ("aggregation", "higher_is_better")
#: Where Python kept a function whose code it could not find, which tells nothing.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def differing_scoring(
    sides: Sequence[Sequence[LoggedRun]], outcome: Logged, accepted: Collection[str]
) -> list[str]:
    """Return in what the scoring of two sides differs, as warnings.

    Parameters
    ----------
    sides : (list of LoggedRun, list of LoggedRun)
        Logs of the baseline's and of the candidate's model on a task, the latest last; a side
        without logs says nothing.
    outcome : Logged
    accepted : collection of str
        Changes that the user accepts.

    Raises
    ------
    UsageError
        A document's target, the task's scoring code, or the settings of its metric or filter
        differ, and that is not accepted.
    """
    if not all(sides):
        return []
    baseline, candidate = (Scoring.of(runs, outcome) for runs in sides)
    differences = list(baseline.differences(candidate, ("the baseline", "the candidate")))
    if differences and SCORING_CODE not in accepted:
        raise UsageError(
            f"{differences[0]}. Score both sides alike, or accept it: --accept_change "
            f"{SCORING_CODE} (in Python settings={{'accept_change': '{SCORING_CODE}'}})"
        )
    return [f"accepted: {difference}" for difference in differences]


class Scoring(NamedTuple):
    """How harness logs scored the answers of a model on a task.

    Attributes
    ----------
    targets : mapping of (doc_id, str) to (str or None)
        Mark of the target of each document, which its number and the mark of its hash name.
    settings : mapping of str to str
        Scoring code, and what the task says of metric and filter; empty where logs do not tell.
    """

    targets: Marks
    settings: Mapping[str, str]

    @classmethod
    def of(cls, runs: Sequence[LoggedRun], outcome: Logged) -> Scoring:
        """Return how a model was scored by its runs on a task, the latest last."""
        targets = {document: mark for run in runs for document, mark in _targets_of(run).items()}
        config = runs[-1].of_task("configs")
        return cls(targets, _scoring_of(config, outcome) if config else {})

    @classmethod
    def of_task(cls, session: TaskSession, outcome: Logged, doc_ids: Iterable[Any]) -> Scoring:
        """Return how a loaded task scores some of its documents."""
        hashes = dict(zip(session.doc_ids, session.doc_hashes))
        targets = {
            (doc_id, hashes[doc_id][:DIGITS]): hash_of(session.target(doc_id))[:DIGITS]
            for doc_id in doc_ids
        }
        return cls(targets, _scoring_of(session.config, outcome))

    def differences(self, peer: Scoring, names: tuple[str, str]) -> Iterator[str]:
        """Yield a sentence on a document whose targets differ, and on each setting that does."""
        changed, compared = differing(self.targets, peer.targets)
        for document in changed[:1]:
            extent = f"; {len(changed)} of {compared} targets differ" if len(changed) > 1 else ""
            marks = zip((self.targets[document], peer.targets[document]), names)
            places = " and ".join(f"{mark} in {name}" for mark, name in marks)
            yield f"the target of document {document[0]!r} is {places}{extent}"
        for key in [key for key in self.settings if key in peer.settings]:
            text, of_peer = self.settings[key], peer.settings[key]
            if text != of_peer and (key == "process_results" or (text and of_peer)):
                yield f"{key} differs between {' and '.join(names)}{first_place(text, of_peer)}"


def _targets_of(run: LoggedRun) -> Marks:
    return _read_targets(run.samples, run.samples.stat().st_mtime_ns)


@lru_cache(maxsize=64)  # every metric of a task has the same targets
def _read_targets(samples: Path, changed: int) -> Marks:
    # A document that has another text is left out of a comparison, so that its target is, too.
    rows = (row for _, row in rows_of(samples, "target_hash") if isinstance(row, dict))
    return {
        (row["doc_id"], str(row.get("doc_hash"))[:DIGITS]): _mark_of_target(row) for row in rows
    }


def _mark_of_target(row: SampleRow) -> str | None:
    """Return the mark of a row's target; None if it states none.

    Before 0.4.3 the harness wrote no hash. A target that JSON has changed has a mark of another
    kind, which can be compared with its like alone.
    """
    match row:
        case {"target_hash": str(hashed)}:
            return hashed[:DIGITS]
        case {"target": target}:
            return WRITTEN + hash_of(str(target))[:DIGITS]
    return None


def _scoring_of(config: Mapping[str, Any], outcome: Logged) -> dict[str, str]:
    """Return the scoring of a metric and a filter in a task's configuration, as texts."""

    def entry(key: str, name_key: str, name: str | None) -> str:
        entries = (e for e in config.get(key) or () if isinstance(e, Mapping))
        for settings in entries:
            if settings.get(name_key) == name:
                stated = {k: v for k, v in settings.items() if k not in _OF_THE_MEAN}
                return _plain(json.dumps(stated, sort_keys=True))
        return ""

    metric, _ = parts_of(outcome.metric)
    return {
        "process_results": _plain(str(config.get("process_results") or "")),
        f"the setting of metric {outcome.metric}": entry("metric_list", "metric", metric),
        f"the setting of filter {outcome.filter}": entry("filter_list", "name", outcome.filter),
    }


def _plain(code: str) -> str:
    """Return code without what says nothing of how it acts."""
    return " ".join(_ADDRESS.sub("", code).split())
