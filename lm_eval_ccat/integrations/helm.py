"""Scores that HELM published, joined to the documents of one of the harness's tasks by their text.

``helm:lite`` is the newest release of a project in HELM's public bucket, ``helm:lite@v1.13.0`` a
given one. HELM samples and numbers its documents itself, so nothing but its text says which of the
harness's documents an instance of HELM is: the only one of the task that has this text in a field.
Of several with the same question, it is the only one that has the instance's references, too.

Layout: ``PROJECT/benchmark_output/releases/RELEASE/runs_to_run_suites.json`` names the suite of
every run, ``PROJECT/benchmark_output/runs/SUITE/RUN`` holds a run's ``instances.json`` (texts) and
what `lm_eval_ccat.scores.readers.frameworks` reads (https://github.com/stanford-crfm/helm,
``docs/downloading_raw_results.md``). A bucket lists its files by Google's JSON API. No account is
needed. What was fetched is kept in the user's cache; a copy that cannot be read is fetched anew.
Of three times as many models a run's small ``stats.json`` says how able each is; the scores of
those that are spread over the range are then fetched.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from ..errors import BankError, CcatError, UsageError
from ..fetching import require_small
from ..grouping import grouped
from ..harness import internals, open_session
from ..scores.readers.frameworks import SPEC, STATS, helm_rows, helm_task
from ..scores.reading import json_value
from ..shown import first_of, plural
from ..upkeep.score_tables import spread
from .log_request import LogRequest

NAME = re.compile(r"helm:(?P<project>[\w.-]+)(?:@(?P<release>[\w.-]+))?")
_HOST, _BUCKET = "https://storage.googleapis.com", "crfm-helm-public"
#: Seconds that an answer may take.
_PATIENCE = 60.0
#: Statuses of what a bucket does not have, or does not show without an account.
_NOT_PUBLIC = (401, 403, 404, 410)
#: Further files of a run: texts of the documents, and mean scores.
_TEXTS, _MEANS = "instances.json", "stats.json"
#: Least number of documents that a scenario shares with the task.
_MIN_DOCUMENTS = 20
#: HELM's metrics that say whether an answer is right; the first that a run has counts.
_RIGHTNESS = (
    "final_number_exact_match", "chain_of_thought_correctness", "math_equiv_chain_of_thought",
    "math_equiv", "exact_match", "quasi_exact_match",
)  # fmt: skip
#: The harness's metrics that say the same.
_RIGHTNESS_OF_HARNESS = ("acc", "exact_match")

#: What a file of another form than HELM's raises where it is read.
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
#: The harness's doc_id by HELM's id.
DocIds = dict[str, int]
Content = TypeVar("Content")


def fetch(name: str, task: str, request: LogRequest) -> Path:
    """Fetch a release's scores on a task of the harness; return a folder with them as one table.

    Parameters
    ----------
    name : str
        ``helm:PROJECT`` or ``helm:PROJECT@RELEASE``.
    task : str
        The harness's name of the task, which is loaded for its documents.
    request : LogRequest
        How many models are taken, and how much is fetched at most.

    Raises
    ------
    BankError
        If the bucket does not answer as HELM's does.
    UsageError
        If there is no such release, HELM has no document of the task, it scores the task otherwise
        than the harness, or more would be fetched than `request` allows.
    """
    with _failures_in_words(name):
        bucket = _Bucket(name)
        runs_of = bucket.runs_by_scenario()
        session = open_session(task, None, confirm_run_unsafe_code=True)
        metric = internals.metric_names(session.task)[0]
        # A bank on other scores than the harness computes would be of another benchmark.
        if metric not in _RIGHTNESS_OF_HARNESS:
            raise UsageError(
                f"{name}: {task} is scored by {metric}, which HELM computes otherwise; only tasks "
                f"scored by {' or '.join(_RIGHTNESS_OF_HARNESS)} can be taken from it"
            )
        documents = _Documents(dict(zip(session.doc_ids, internals.documents(session.task))))
        doc_ids_of = _scenarios_with_task(bucket, task, runs_of, documents)
        # Of a model that ran several of these scenarios, the first one counts: it is put last.
        run_of = {run.model: run for scenario in reversed(doc_ids_of) for run in runs_of[scenario]}
        first_scenario = first_of(list(doc_ids_of), 1)
        means = _means(bucket, [run_of[model] for model in request.candidates(sorted(run_of))])
        if not means:
            raise UsageError(f"{name}: no run of {first_scenario} says how it scores")
        chosen_models = spread(means, request.n_models)
        size_of = {run_of[model]: bucket.size(run_of[model]) for model in chosen_models}
        size = sum(size_of.values())
        common = {doc_id for doc_ids in doc_ids_of.values() for doc_id in doc_ids.values()}
        request.say(
            f"{name}: {bucket.release}, {first_scenario}: {len(common):,} of "
            f"{len(session.doc_ids):,} documents of {task} found by their text; {len(size_of)} of "
            f"{plural(len(run_of), 'model')} (scores {min(means.values()):.3g} to "
            f"{max(means.values()):.3g}), {size / 1e6:,.0f} MB; what is cached is not fetched again"
        )
        require_small(name, len(size_of), size, request.max_gb)
        scores: list[_Score] = []
        for run, done in zip(size_of, accumulate(size_of.values())):
            scores += _scores(bucket, run, doc_ids_of[run.scenario])
            if request.on_progress is not None:
                request.on_progress(done, size)
        hashes = dict(zip(session.doc_ids, session.doc_hashes))
        return _written(bucket.cache / bucket.release / task, task, metric, scores, hashes)


@contextmanager
def _failures_in_words(name: str) -> Iterator[None]:
    """Make a `BankError` of what a bucket raises that does not answer, or has other files."""
    try:
        yield
    except CcatError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise BankError(
            f"{name}: HELM's files cannot be fetched from {_HOST} ({error}); check the connection "
            "and try again: what is cached is not fetched again"
        ) from None
    except _DAMAGE as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())[:200]
        raise BankError(
            f"{name}: a file of another form than HELM's at {_HOST} ({reason}); try again, or take "
            f"another release ({name.partition('@')[0]}@RELEASE)"
        ) from error


class _Run(NamedTuple):
    """A run of a model on one of HELM's scenarios.

    Attributes
    ----------
    name : str
        HELM's, which states scenario and model.
    suite : str
        The folder that holds it.
    """

    name: str
    suite: str

    @property
    def scenario(self) -> str:
        """The scenario with its arguments; a scenario has the same instances in every run."""
        return helm_task(self.name)

    @property
    def model(self) -> str:
        """The model, by the run's name."""
        match = re.search(r"[:,]model=([^,]+)", self.name)
        return match[1] if match else self.name


class _Score(NamedTuple):
    """Whether a model's answer to a document is right: 0 or 1, or the mean over trials."""

    model: str
    doc_id: int
    score: float


def _written(
    folder: Path, task: str, metric: str, scores: Sequence[_Score], hashes: Mapping[int, str]
) -> Path:
    """Write the scores of a task as a table of long form; return its folder."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    columns = {
        "model": [score.model for score in scores],
        "doc_id": [score.doc_id for score in scores],
        "doc_hash": [hashes[score.doc_id] for score in scores],
        "score": [score.score for score in scores],
        "task": [task] * len(scores),
        "metric": [metric] * len(scores),
    }
    parquet.write_table(pa.table(columns), folder / "scores.parquet")
    return folder


# -- documents by their text ----------------------------------------------------------------------


class _Documents:
    """A task's documents, by each of their texts."""

    def __init__(self, documents: Mapping[int, Any]) -> None:
        self._texts = {doc_id: set(_texts_in(doc)) for doc_id, doc in documents.items()}
        self._by_text = grouped(
            (text, doc_id) for doc_id, texts in self._texts.items() for text in texts
        )

    def doc_ids(self, instances: Sequence[Mapping[str, Any]]) -> DocIds:
        """Return the document of each of HELM's instances.

        Left out are instances whose text is that of no document or of several, and those that share
        their document with another instance.
        """
        ids: dict[int, list[str]] = {}
        for instance in instances:
            # HELM asks some documents again with other spelling, say, which the harness does not.
            if instance.get("perturbation"):
                continue
            doc_ids = self._by_text.get(_plain(instance["input"]["text"]), [])
            # Of documents with the same question, the answers tell which it is.
            if len(doc_ids) > 1:
                choices = {
                    _plain(reference["output"]["text"]) for reference in instance["references"]
                }
                doc_ids = [doc_id for doc_id in doc_ids if choices <= self._texts[doc_id]]
            if len(doc_ids) == 1:
                ids.setdefault(doc_ids[0], []).append(str(instance["id"]))
        return {names[0]: doc_id for doc_id, names in ids.items() if len(names) == 1}


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a document, at any depth."""
    if isinstance(value, str):
        yield _plain(value)
    elif isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(part)


def _plain(text: str) -> str:
    """Return a text without differences of case and blanks."""
    return " ".join(text.split()).casefold()


def _scenarios_with_task(
    bucket: _Bucket, task: str, runs_of: Mapping[str, Sequence[_Run]], documents: _Documents
) -> dict[str, DocIds]:
    """Return the scenarios that hold documents of a task, each with HELM's ids of these.

    Scenarios are looked at by the likeness of their names to the task's. Once some hold documents,
    only those of equally like names are looked at, too. The one with most runs comes first.

    Parameters
    ----------
    bucket : _Bucket
    task : str
        The harness's name.
    runs_of : mapping of str to sequence of _Run
        The runs of each scenario, of which the first one's texts are read.
    documents : _Documents
        Those of the task.

    Raises
    ------
    UsageError
        No scenario holds enough of them.
    """
    likeness = {scenario: _likeness(scenario, task) for scenario in runs_of}
    doc_ids_of: dict[str, DocIds] = {}
    for scenario in sorted(runs_of, key=lambda scenario: (-likeness[scenario], scenario)):
        # Looking at every scenario would fetch the texts of all of them.
        if doc_ids_of and likeness[scenario] < max(likeness[fitting] for fitting in doc_ids_of):
            break
        # Of some scenarios HELM may not show the texts.
        with suppress(FileNotFoundError):
            doc_ids = bucket.read_run(
                runs_of[scenario][0], _TEXTS, lambda file: documents.doc_ids(json_value(file))
            )
            if len(doc_ids) >= _MIN_DOCUMENTS:
                doc_ids_of[scenario] = doc_ids
    if not doc_ids_of:
        raise UsageError(
            f"{bucket.name}: no document of {task} was found by its text in the {len(runs_of)} "
            f"scenarios of {bucket.release} (they sample others, or show them otherwise); HELM's "
            "own logs, downloaded, make a bank under HELM's ids"
        )
    by_size = sorted(doc_ids_of, key=lambda scenario: -len(runs_of[scenario]))
    return {scenario: doc_ids_of[scenario] for scenario in by_size}


def _likeness(scenario: str, task: str) -> int:
    """Return how many letters of a task's name are words of a scenario's name and arguments.

    Examples
    --------
    >>> _likeness("mmlu:subject=abstract_algebra,method=joint", "mmlu_abstract_algebra")
    19
    """
    name, _, arguments = scenario.partition(":")
    words = [name, *(part.partition("=")[2] for part in arguments.split(","))]
    letters_of_task = _letters_and_digits(task)
    return sum(
        len(word) for word in set(map(_letters_and_digits, words)) if word in letters_of_task
    )


def _letters_and_digits(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return re.sub(r"[\W_]", "", name).lower()


def _scores(bucket: _Bucket, run: _Run, doc_ids: DocIds) -> list[_Score]:
    """Return a run's scores on the documents of a task."""
    # Fetched for `helm_rows`, which reads the model's name from this file beside the scores.
    bucket.read_run(run, SPEC, lambda file: json_value(file)["adapter_spec"]["model"])
    rows = bucket.read_run(run, STATS, lambda file: list(helm_rows(file, [])))
    metric = _rightness({row.metric for row in rows})
    if metric is None:
        raise UsageError(f"{bucket.name}: {run.name} does not say which answers are right")
    trials = grouped(
        (doc_ids[row.doc_id], row.score)
        for row in rows
        if row.metric == metric and row.doc_id in doc_ids
    )
    return [
        _Score(rows[0].model, doc_id, sum(values) / len(values))
        for doc_id, values in trials.items()
    ]


def _means(bucket: _Bucket, runs: Sequence[_Run]) -> dict[str, float]:
    """Return by model the share of answers that are right, of the runs that say it."""
    means: dict[str, float] = {}
    for run in runs:
        # HELM may not show this file.
        with suppress(FileNotFoundError):
            mean_of = bucket.read_run(run, _MEANS, _means_by_metric)
            if metric := _rightness(mean_of):
                means[run.model] = mean_of[metric]
    return means


def _means_by_metric(file: Path) -> dict[str, float]:
    """Return a run's mean of each metric over the documents that are scored, unperturbed."""
    return {
        str(stat["name"]["name"]): float(stat["mean"])
        for stat in json_value(file)
        if stat["name"].get("split") == "test" and not stat["name"].get("perturbation")
        and stat.get("mean") is not None
    }  # fmt: skip


def _rightness(metrics: Collection[str]) -> str | None:
    """Return which of a run's metrics says whether an answer is right; None if none does."""
    return next((metric for metric in _RIGHTNESS if metric in metrics), None)


# -- the bucket -----------------------------------------------------------------------------------


class _Bucket:
    """A release of one of HELM's projects, and the local copies of its files.

    Making one fetches the list of releases.

    Parameters
    ----------
    name : str
        ``helm:PROJECT`` for the newest release, by the numbers in its name, or
        ``helm:PROJECT@RELEASE``.

    Raises
    ------
    UsageError
        The name has another form, or there is no such project or release.
    OSError
        The bucket does not answer.
    """

    def __init__(self, name: str) -> None:
        match = NAME.fullmatch(name)
        if match is None:
            raise UsageError(f"{name}: a project of HELM is named helm:lite, or helm:lite@v1.13.0")
        self.name, self._root = name, f"{match['project']}/benchmark_output"
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.cache = Path(cache) / "lm-eval-ccat" / "helm" / match["project"]
        releases = self._folders_below(f"{self._root}/releases/")
        if not releases:
            raise UsageError(f"{name}: HELM's bucket has no releases of {match['project']}")
        self.release = match["release"] or max(releases, key=_version)
        if self.release not in releases:
            known = ", ".join(sorted(releases, key=_version))
            raise UsageError(f"{name}: no such release; there are {known}")

    def runs_by_scenario(self) -> dict[str, list[_Run]]:
        """Return the runs of the release, by their scenario.

        Raises
        ------
        UsageError
            The release is older than the file that says in which folders they are.
        """
        try:
            runs = self._read(f"releases/{self.release}/runs_to_run_suites.json", _runs_in)
        except FileNotFoundError as error:
            raise UsageError(
                f"{self.name}: {self.release} does not say where its runs are ({error}); take a "
                "later release"
            ) from None
        return grouped((run.scenario, run) for run in runs)

    def read_run(self, run: _Run, file: str, content: Callable[[Path], Content]) -> Content:
        """Return what `content` makes of the local copy of a run's file.

        Raises
        ------
        FileNotFoundError
            HELM does not publish the file.
        """
        return self._read(f"runs/{run.suite}/{run.name}/{file}", content)

    def size(self, run: _Run) -> int:
        """Return the bytes of a run's scores."""
        path = f"{self._root}/runs/{run.suite}/{run.name}/{STATS}"
        return sum(int(item["size"]) for item in self._listed("items", prefix=path))

    def _read(self, path: str, content: Callable[[Path], Content]) -> Content:
        """Return a file's content; a local copy that cannot be read is fetched anew, once."""
        local = self.cache.joinpath(*path.replace(":", "_").split("/"))  # Windows has no colons
        if not local.resolve().is_relative_to(self.cache.resolve()):
            raise ValueError(f"a file outside its folder, {path}")
        # What was fetched once may be damaged, or of another form in a later release.
        if local.is_file():
            try:
                return content(local)
            except _DAMAGE:
                local.unlink()
        self._download(path, local)
        return content(local)

    def _download(self, path: str, local: Path) -> None:
        """Fetch a file, which has another name until it is whole."""
        local.parent.mkdir(parents=True, exist_ok=True)
        part = local.with_name(f"{local.name}.{os.getpid()}.part")
        with _opened_address(f"{_HOST}/{_BUCKET}/{quote(f'{self._root}/{path}')}") as stream:
            with part.open("wb") as out:
                while chunk := stream.read(1 << 20):
                    out.write(chunk)
                length = stream.headers.get("Content-Length")
                # A connection that breaks off ends a stream as if it were whole.
                if length is not None and out.tell() != int(length):
                    raise OSError(f"{path} broke off after {out.tell():,} of {length} bytes")
        part.replace(local)

    def _folders_below(self, prefix: str) -> list[str]:
        """Return the names of the folders at a place."""
        listed = self._listed("prefixes", prefix=prefix, delimiter="/")
        return [str(path).removeprefix(prefix).strip("/") for path in listed]

    def _listed(self, part: str, **query: str) -> Iterator[Any]:
        """Yield what all pages of a listing have under the key `part`."""
        while True:
            url = f"{_HOST}/storage/v1/b/{_BUCKET}/o?{urlencode(query)}"
            with _opened_address(url) as stream:
                page = dict(json.load(stream))
            yield from page.get(part, ())
            # A server that names the same page again would be asked for ever.
            if not (token := page.get("nextPageToken")) or token == query.get("pageToken"):
                return
            query["pageToken"] = str(token)


def _runs_in(file: Path) -> list[_Run]:
    """Return the runs that a file of their suites lists."""
    return [_Run(str(name), str(suite)) for name, suite in json_value(file).items()]


def _opened_address(url: str) -> Any:
    """Open an address for reading.

    Raises
    ------
    FileNotFoundError
        There is nothing for strangers. A bucket that only has trouble raises another `OSError`.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "lm-eval-ccat"})
    try:
        return urllib.request.urlopen(request, timeout=_PATIENCE)
    except urllib.error.HTTPError as error:
        if error.code in _NOT_PUBLIC:
            raise FileNotFoundError(f"{url}: {error}") from None
        raise


def _version(release: str) -> list[int]:
    """Return the numbers in the name of a release, by which releases are ordered."""
    return [int(number) for number in re.findall(r"\d+", release)]
