"""COMET scores of translations, from a long-lived worker in a separate environment."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from ..errors import MetricError

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"
#: Environment variables: Python of the environment, the checkpoint, graphics cards to use.
PYTHON_VARIABLE = "CCAT_COMET_PYTHON"
MODEL_VARIABLE = "CCAT_COMET_MODEL"
GPUS_VARIABLE = "CCAT_COMET_GPUS"
RECIPE = (
    f"make it with `lm-eval-ccat score comet --setup`, or name one's Python by {PYTHON_VARIABLE}"
)
#: Compatible versions; setuptools 81 dropped pkg_resources, which torchmetrics 0.10 imports.
PINS = ("unbabel-comet==2.2.7", "setuptools<81")
#: Python versions with wheels of numpy 1.26, which COMET needs.
_PYTHONS = ((3, 10), (3, 11), (3, 12))


class CometWorker:
    """A process that loads COMET's model once and scores on request.

    Parameters
    ----------
    python : str
        Python of an environment with unbabel-comet.
    model : str
        Hub name, or path of a checkpoint.
    batch_size, gpus : int

    Raises
    ------
    MetricError
        If there is no such environment, or COMET fails; the message quotes COMET's.
    """

    def __init__(self, python: str, model: str, batch_size: int = 16, gpus: int = 0) -> None:
        self._python = python
        self._lock = threading.Lock()
        self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        worker = Path(__file__).with_name("comet_worker.py")
        try:
            self._process = subprocess.Popen(
                [python, str(worker), model, str(batch_size), str(gpus)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
            )  # fmt: skip
        except OSError as error:
            raise MetricError(f"cannot run {python} ({error.strerror}): {RECIPE}") from error
        atexit.register(self._process.kill)
        self._answer()

    def score(self, rows: Sequence[dict[str, str]]) -> list[float]:
        """Return COMET's regression scores of rows with ``src``, ``mt`` and ``ref``."""
        with self._lock:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(list(rows)) + "\n")
                self._process.stdin.flush()
            except OSError:
                pass  # the process has ended; its last line says why
            scores = self._answer()
        if len(scores) != len(rows):
            raise MetricError(f"metric comet gave {len(scores)} scores for {len(rows)} rows")
        return scores

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def _answer(self) -> list[float]:
        """Wait for the worker's next line, and return its scores; its first line has none.

        Lines are JSON: ``{"ready": MODEL}``, ``{"scores": [...]}`` or ``{"error": "..."}``.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line.endswith("\n"):
            answer = json.loads(line)
        # A signal ended it, perhaps in the middle of a line: what it wrote before is not the cause.
        elif (code := self._process.wait()) < 0:
            answer = {"error": f"it was killed by signal {-code}; has the machine memory enough?"}
        # It ended by itself, and wrote why to stderr.
        else:
            self._stderr.seek(0)
            answer = {"error": _last_line(self._stderr.read())}
        if "error" in answer:
            missing = "No module named 'comet'" in answer["error"]
            remedy = f"; {RECIPE}" if missing else ""
            raise MetricError(
                f"metric comet failed in {self._python}: {answer['error'][:300]}{remedy}"
            )
        return [float(score) for score in answer.get("scores", ())]


def _last_line(text: str) -> str:
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["no message"])[-1]


def comet_scores(
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    *,
    python: str | None = None,
    model: str | None = None,
    batch_size: int = 16,
) -> list[float]:
    """COMET of translations (Rei et al. 2022); the model is loaded at the first call and stays.

    Parameters
    ----------
    sources, translations, references : sequence of str
        Sequences of equal length. An empty translation scores 0 and is not sent to COMET.
    python : str, optional
        Python of an environment with unbabel-comet; else the variable ``CCAT_COMET_PYTHON``, else
        the environment that ``lm-eval-ccat score comet --setup`` made.
    model : str, optional
        Hub name, or path of a checkpoint; else ``CCAT_COMET_MODEL``, else `DEFAULT_MODEL`.
    batch_size : int

    Returns
    -------
    list of float
        In [0, 1], higher is better; values beyond are clipped.

    Raises
    ------
    MetricError
        If there is no such environment, or COMET fails; the message quotes COMET's.
    """
    filled = [i for i, text in enumerate(translations) if text.strip()]
    scores = [0.0] * len(translations)
    # COMET's environment need not exist for texts that are all empty.
    if not filled and translations:
        return scores
    cards = int(os.environ.get(GPUS_VARIABLE) or 0)
    settings = (python or default_python(), model or checkpoint(), batch_size, cards)
    # It was killed or ran out of memory: start another.
    if not _worker(*settings).alive:
        _worker.cache_clear()
    worker = _worker(*settings)
    rows = [{"src": sources[i], "mt": translations[i], "ref": references[i]} for i in filled]
    for i, score in zip(filled, worker.score(rows)):
        scores[i] = min(max(score, 0.0), 1.0)
    return scores


#: The worker of this process; other settings, or an emptied cache, start another one.
_worker = functools.lru_cache(maxsize=1)(CometWorker)


def checkpoint() -> str:
    """Return the checkpoint that this process uses."""
    return os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL


def environment() -> Path:
    """Return the folder where ``lm-eval-ccat score comet --setup`` makes COMET's environment.

    Raises
    ------
    MetricError
        If there is no home directory.
    """
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise MetricError(
            "there is no home directory for COMET's environment; choose a folder with "
            f"`lm-eval-ccat score comet --setup DIR`, and its Python by {PYTHON_VARIABLE}"
        ) from None
    return Path(cache) / "lm-eval-ccat" / "comet"


def default_python() -> str:
    """Return the Python of the configured environment, or of the one that ``--setup`` made.

    Raises
    ------
    MetricError
        If there is none.
    """
    python = os.environ.get(PYTHON_VARIABLE)
    if python:
        return python
    environment_python = _python_of(environment())
    if not environment_python.exists():
        raise MetricError(f"metric comet runs in an environment of its own: {RECIPE}")
    return str(environment_python)


def make_environment(folder: Path) -> str:
    """Create an environment with unbabel-comet and compatible packages; return its Python.

    It takes minutes, and shows pip's progress on standard error. An environment that is there
    already is completed.

    Raises
    ------
    MetricError
        If no Python from 3.10 to 3.12 is running or on the PATH, or a step fails; the message has
        the last line of its errors.
    """
    # Otherwise the last line may be that there is a newer pip.
    pip = ["-m", "pip", "--disable-pip-version-check"]
    steps = (
        [_fitting_python(), "-m", "venv", str(folder)],
        [str(_python_of(folder)), *pip, "install", *PINS],
        [str(_python_of(folder)), "-c", "import comet"],
    )
    for step in steps:
        try:
            done = subprocess.run(step, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            raise MetricError(f"cannot run {step[0]} ({error.strerror})") from error
        if done.returncode != 0:
            raise MetricError(f"`{' '.join(step)}` failed: {_last_line(done.stderr)[:300]}")
    return str(_python_of(folder))


def _python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _fitting_python() -> str:
    """Return a Python for which COMET's packages exist: this one, or one on the PATH."""
    if sys.version_info[:2] in _PYTHONS:
        return sys.executable
    for major, minor in reversed(_PYTHONS):
        path = shutil.which(f"python{major}.{minor}")
        if path:
            return path
    raise MetricError(
        "COMET needs numpy 1.26, which has wheels for Python 3.10 to 3.12; put one of these on the "
        "PATH"
    )
