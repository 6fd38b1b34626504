"""COMET scores of translations, computed in an environment of COMET's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import MetricError

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"
VARIABLE = "CCAT_COMET_PYTHON"
RECIPE = (
    "make it with `python3 -m venv comet-env && comet-env/bin/pip install unbabel-comet` and give "
    f"--python comet-env/bin/python (or set {VARIABLE})"
)


def comet_scores(
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    *,
    python: str | None = None,
    model: str = DEFAULT_MODEL,
    batch_size: int = 16,
    gpus: int = 0,
) -> list[float]:
    """COMET of translations (Rei et al. 2022).

    Parameters
    ----------
    sources, translations, references : sequence of str
        Equally many. An empty translation scores 0 without being asked for.
    python : str, optional
        Python of an environment with unbabel-comet; else the variable ``CCAT_COMET_PYTHON``.
    model : str
        Hub name, or path of a checkpoint.
    batch_size, gpus : int

    Returns
    -------
    list of float
        In [0, 1], higher is better; what the regression gives beyond is clipped.

    Raises
    ------
    MetricError
        If there is no such environment, or COMET fails; with its last line.
    """
    python = python or os.environ.get(VARIABLE)
    if not python:
        raise MetricError(f"metric comet runs in an environment of its own: {RECIPE}")
    filled = [i for i, text in enumerate(translations) if text.strip()]
    scores = [0.0] * len(translations)
    with tempfile.TemporaryDirectory() as folder:
        source, destination = Path(folder, "in.jsonl"), Path(folder, "out.txt")
        with source.open("w", encoding="utf-8") as file:
            for i in filled:
                row = {"src": sources[i], "mt": translations[i], "ref": references[i]}
                file.write(json.dumps(row) + "\n")
        # From a folder of its own: Python looks for modules beside a script first, and beside the
        # worker lies this very file, whose name is that of COMET's package.
        worker = shutil.copy(Path(__file__).with_name("comet_worker.py"), folder)
        command = [python, str(worker), str(source), str(destination), model]
        try:
            done = subprocess.run(
                [*command, str(batch_size), str(gpus)], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise MetricError(f"cannot run {python} ({error.strerror}): {RECIPE}") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            remedy = f"; {RECIPE}" if "No module named 'comet'" in last else ""
            raise MetricError(f"metric comet failed in {python}: {last[:300]}{remedy}")
        found = [float(line) for line in destination.read_text().splitlines()]
    if len(found) != len(filled):
        raise MetricError(f"metric comet gave {len(found)} scores for {len(filled)} translations")
    for i, score in zip(filled, found):
        scores[i] = min(max(score, 0.0), 1.0)
    return scores
