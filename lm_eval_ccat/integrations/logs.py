"""Logs by name: folders, archives, repositories on GitHub, data sets on the hub, HELM's results.

``hub:OWNER/NAME`` is one data set; ``hub:OWNER`` is a board, a data set of each model's logs called
``<organisation>__<model>-details``, as the second Open LLM Leaderboard published them. Of a board
some models are taken, spread over the range of scores and over families of models: the small
results files of three times as many say how able each is, and then only the sample files of the
wanted tasks are fetched. Files of several runs stand beside one another; the newest counts, or the
one whose date begins as ``hub:OWNER@2024-09`` says.

huggingface_hub fetches: it caches, resumes, repeats after 429 and 5xx, and sends ``HF_TOKEN``.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ..bank.bank import family_of
from ..errors import BankError, CcatError, UsageError
from ..fetching import Hub, data_set, opened_hub, require_small
from ..scores.readers.frameworks import BROKEN
from ..scores.readers.logged_runs import sample_name
from ..shown import plural
from ..upkeep.score_tables import spread
from .log_request import LogRequest

HELM = "helm:"
#: Bytes per second that a hub sends at least: small files come slower than large ones.
_LEAST_SPEED = 1e5
#: Endings of archives.
_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz")
_ARCHIVE = "https://codeload.github.com/{repo}/tar.gz/{ref}"
_GITHUB = re.compile(r"github:(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<ref>[\w./-]+))?")
_BOARD = re.compile(r"hub:(?P<owner>[\w.-]+)(?:@(?P<date>[\w.:-]+))?")
_DETAILS = re.compile(r"[\w.-]+/(?P<organisation>.+?)__(?P<model>.+)-details")


@contextmanager
def logs_of(names: Sequence[str], request: LogRequest | None = None) -> Iterator[Path | None]:
    """Yield one folder with the logs that several names stand for.

    Parameters
    ----------
    names : sequence of str
        Folders; archives of logs (``.zip``, ``.tar.gz``); ``github:OWNER/NAME[@REF]``;
        ``hub:OWNER/NAME[@REVISION]``; ``hub:OWNER[@DATE]``; ``helm:PROJECT[@RELEASE]``. A
        single folder or file of scores is used as it is. Without names, yields None.
    request : LogRequest, optional

    Raises
    ------
    BankError
        If something cannot be fetched.
    UsageError
        If one of several folders does not exist, or more would be fetched than `request` allows.
    """
    request = request or LogRequest()
    if not names or (len(names) == 1 and not _must_be_fetched(names[0])):
        yield Path(names[0]) if names else None
        return
    # HELM's scores lie in a cache of their own, and are joined by texts, not by ids.
    if helm_names := [name for name in names if name.startswith(HELM)]:
        from .helm import fetch

        if len(names) > 1 or len(request.tasks) != 1:
            raise UsageError(
                f"{helm_names[0]} stands alone, with the harness's name of one task (--task), "
                "whose documents are found by their text"
            )
        yield fetch(names[0], request.tasks[0], request)
        return
    with TemporaryDirectory() as folder:
        for n, name in enumerate(names):
            stem = re.sub(r"\W+", "_", name.removeprefix("hub:").partition("@")[0])
            # Numbered, as names that differ may be alike but for their signs.
            target = Path(folder) / f"{n:03d}_{stem}"
            request.names[str(target)] = name
            _put_logs(name, target, request)
        request.names[folder] = " and ".join(names)
        try:
            yield Path(folder)
        # Users know the names that they gave, not the folders where these lie for a while.
        except CcatError as error:
            error.args = tuple(request.names(str(text)) for text in error.args)
            raise


def _put_logs(name: str, target: Path, request: LogRequest) -> None:
    """Put the logs that a name stands for into a folder: fetched, unpacked or linked."""
    if board := _BOARD.fullmatch(name):
        _fetch_board(board["owner"], board["date"] or "", request, target)
    elif github := _GITHUB.fullmatch(name):
        archive = target.with_name(f"{target.name}.tar.gz")
        url = _ARCHIVE.format(repo=github["repo"], ref=github["ref"] or "HEAD")
        _download(url, archive, request, name)
        _unpack(archive, target, request, name)
        archive.unlink()
    elif name.endswith(_ENDINGS) and Path(name).is_file():
        _unpack(Path(name), target, request, name)
    else:
        source = data_set(name) if name.startswith("hub:") else Path(name)
        if not source.is_dir():
            raise UsageError(f"{name}: no such directory of logs; each of several is one")
        _link(source, target)


def _must_be_fetched(name: str) -> bool:
    """Whether what a name stands for has to be fetched or unpacked."""
    return name.startswith(("hub:", "github:", HELM)) or (
        name.endswith(_ENDINGS) and Path(name).is_file()
    )


def _link(source: Path, target: Path) -> None:
    """Make a file or folder appear at `target`, by a link where there are links.

    A bank records where its logs lie, and readers follow a link to where that is.
    """
    try:
        target.symlink_to(source.resolve() if source.is_dir() else source, source.is_dir())
    # Windows lets few users make links.
    except OSError:
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)


# -- a board of data sets -------------------------------------------------------------------------


class _BoardRun(NamedTuple):
    """A run of a model on a board: its data set, and the files to fetch.

    Attributes
    ----------
    repo, results : str
        Names of the data set and of the results file in it.
    results_size : int
        Bytes of that file.
    samples : dict of str to int
        Bytes of each sample file.
    """

    repo: str
    results: str
    results_size: int
    samples: dict[str, int]

    @property
    def size(self) -> int:
        """Bytes of all samples."""
        return sum(self.samples.values())


def _fetch_board(owner: str, date: str, request: LogRequest, target: Path) -> None:
    """Fetch the tasks asked for of some models of a board, and link their files in a folder."""
    # A board holds hundreds of gigabytes.
    if not request.tasks:
        raise UsageError(f"hub:{owner} holds every task of a board: name the task (--task)")
    with opened_hub(f"hub:{owner}: the logs cannot be fetched") as hub:
        _link_runs(hub, _chosen_runs(hub, owner, date, request), target, request)


def _chosen_runs(hub: Hub, owner: str, date: str, request: LogRequest) -> list[_BoardRun]:
    """Choose models of a board by how able they are, and return the newest run of each.

    A line says what will be fetched; what is more than `request` allows is refused.
    """
    api = hub.library.HfApi(endpoint=hub.address)
    repo_of = _repos_of_board(api, owner)
    candidates = request.candidates(list(repo_of))
    start = time.monotonic()
    run_of = {
        model: run
        for model in candidates
        if (run := _newest_run(api, repo_of[model], request.tasks, date))
    }
    # Mean score by model. Results files are small: they say which models to take before samples are
    # fetched, and how fast the hub sends.
    scores = {
        model: score
        for model, run in run_of.items()
        if (score := _score_of(_fetched(hub, run, run.results), request)) is not None
    }
    seconds = max(time.monotonic() - start, 1e-3)
    speed = sum(run.results_size for run in run_of.values()) / seconds
    if not scores:
        dated = f" of {date}" if date else ""
        raise UsageError(
            f"hub:{owner}: no samples of {', '.join(request.tasks)}{dated} in the logs of "
            f"{plural(len(candidates), 'model')} that were looked at"
        )
    runs = [run_of[model] for model in spread(scores, request.n_models)]
    size = sum(run.size for run in runs)
    n_families = len({family_of(model) for model in scores})
    request.say(
        f"hub:{owner}: {len(runs)} of {len(repo_of):,} models ({n_families} families, scores "
        f"{min(scores.values()):.3g} to {max(scores.values()):.3g}), {size / 1e6:,.0f} MB of "
        f"samples, about {max(size / max(speed, _LEAST_SPEED) / 60, 0.1):.1f} minutes; what is "
        "cached is not fetched again"
    )
    # Results are small; samples, which are large, are fetched by the caller.
    require_small(f"hub:{owner}", len(runs), size, request.max_gb)
    return runs


def _repos_of_board(api: Any, owner: str) -> dict[str, str]:
    """Return the data set of each model of a board, by ``organisation/model``."""
    repo_of = {
        f"{match['organisation']}/{match['model']}": repo.id
        for repo in api.list_datasets(author=owner, search="-details")
        if (match := _DETAILS.fullmatch(repo.id))
    }
    if not repo_of:
        raise UsageError(f"hub:{owner}: no data set <organisation>__<model>-details there")
    return repo_of


def _link_runs(hub: Hub, runs: Sequence[_BoardRun], target: Path, request: LogRequest) -> None:
    """Fetch the files of runs, and link them in a folder of each run below `target`."""
    done, size = 0, sum(run.size for run in runs)
    for number, run in enumerate(runs):
        # Numbered, as owners may use one name for two data sets.
        folder = target / f"{number:03d}_{run.repo.rpartition('/')[2]}"
        folder.mkdir(parents=True)
        # What has been fetched already adds nothing to the progress.
        for path, file_size in (*run.samples.items(), (run.results, 0)):
            _link(_fetched(hub, run, path), folder / Path(path).name)
            done += file_size
            if request.on_progress is not None:
                request.on_progress(done, size)


def _newest_run(api: Any, repo: str, tasks: Sequence[str], date: str) -> _BoardRun | None:
    """Return the newest run in a data set that has samples of the tasks, or None."""
    tree = list(api.list_repo_tree(repo, recursive=True, repo_type="dataset"))
    files = {entry.path: entry.size for entry in tree if hasattr(entry, "size")}
    runs: dict[str, dict[str, int]] = {}  # sample files by folder and date
    for path, size in files.items():
        task, day = sample_name(Path(path).name) or ("", "")
        if day and day.startswith(date) and any(fnmatchcase(task, name) for name in tasks):
            folder = path.rpartition("/")[0]
            runs.setdefault(f"{day} {folder}", {})[path] = size
    # Dates compare as text, so that the newest run comes first.
    for key, samples in sorted(runs.items(), reverse=True):
        day, _, folder = key.partition(" ")
        results = f"{folder}/results_{day}.json".lstrip("/")
        if results in files:
            return _BoardRun(repo, results, files[results], samples)
    return None


def _fetched(hub: Hub, run: _BoardRun, path: str) -> Path:
    """Fetch one file of a run; return the cached copy."""
    try:
        return Path(hub.library.hf_hub_download(run.repo, path, **hub.data_set_arguments))
    except hub.library.errors.GatedRepoError:
        raise BankError(
            f"hub:{run.repo} is gated: with a free account accept its terms at "
            f"https://huggingface.co/datasets/{run.repo}, then set HF_TOKEN"
        ) from None


def _score_of(results: Path, request: LogRequest) -> float | None:
    """Return a model's mean score over the tasks asked for, by its results; None without one."""
    try:
        tasks = json.loads(results.read_text(encoding="utf-8"))["results"]
        scores = [
            _figure_of(figures, request.metric)
            for task, figures in tasks.items()
            if any(fnmatchcase(task, pattern) for pattern in request.tasks)
        ]
    # A results file of another form, or without a figure, tells nothing.
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    mean = float(np.mean(scores)) if scores else float("nan")
    return mean if np.isfinite(mean) else None


def _figure_of(figures: Mapping[str, Any], metric: str | None) -> float:
    """Return the first figure of a task's results that is of the metric, or of any if it is None.

    Raises
    ------
    LookupError
        There is none.
    """
    for key, value in figures.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        is_meant = "_stderr" not in key and metric in (None, key.partition(",")[0])
        if is_number and is_meant:
            return float(value)
    raise LookupError(f"no figure of {metric}")


# -- archives -------------------------------------------------------------------------------------


def _download(url: str, target: Path, request: LogRequest, name: str) -> None:
    """Fetch a file, at most as many bytes as `request` allows."""
    limit, done = int(request.max_gb * 1e9), 0
    download = urllib.request.Request(url, headers={"User-Agent": "lm-eval-ccat"})
    if token := os.environ.get("GITHUB_TOKEN"):
        # Not sent on to an address to which this one may redirect.
        download.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(download, timeout=60) as stream, target.open("wb") as out:
            while chunk := stream.read(1 << 20):
                done += len(chunk)
                if done > limit:
                    raise UsageError(f"{name}: more than --max_gb {request.max_gb:g}")
                out.write(chunk)
    except (OSError, http.client.HTTPException) as error:
        raise BankError(
            f"{name}: the archive cannot be fetched from {url} ({error}); check the name, the "
            "connection, and GITHUB_TOKEN where a token is needed"
        ) from None


def _unpack(archive: Path, folder: Path, request: LogRequest, name: str) -> None:
    """Unpack an archive's files into a folder: no links, nothing outside, no more than allowed."""
    left = int(request.max_gb * 1e9)
    try:
        for member in _members(archive):
            parts = [part for part in Path(member.path).parts if part not in ("", ".", "/")]
            # An archive of a stranger must not write elsewhere, nor on another drive of Windows.
            if not parts or ".." in parts or PureWindowsPath(member.path).drive:
                raise UsageError(f"{name}: it holds a file outside itself ({member.path})")
            left -= member.size
            if left < 0:
                raise UsageError(f"{name}: it unpacks to more than --max_gb {request.max_gb:g}")
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with member.opened() as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
    except (*BROKEN, tarfile.TarError, ValueError) as error:
        raise BankError(
            f"{name}: not a readable archive ({error}); get it again, or unpack it and name the "
            "folder"
        ) from None
    if not folder.is_dir():
        raise UsageError(f"{name}: an archive without files; name one of logs")


class _Member(NamedTuple):
    """A regular file of an archive, its size when it is unpacked, and what opens it."""

    path: str
    size: int
    opened: Callable[[], Any]


def _members(archive: Path) -> Iterator[_Member]:
    """Yield the regular files of an archive."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    yield _Member(info.filename, info.file_size, partial(packed.open, info))
        return
    with tarfile.open(archive) as bundle:
        for member in bundle:
            if member.isfile():
                yield _Member(member.name, member.size, partial(bundle.extractfile, member))
