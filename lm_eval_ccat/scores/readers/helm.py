"""Reader of HELM's runs: ``run_spec.json`` and ``per_instance_stats.json`` in a folder per run.

``per_instance_stats.json`` is a list of ``{instance_id, train_trial_index, perturbation, stats}``;
a stat is ``{name: {name, split, ...}, count, sum, mean, ...}``. Instances are numbered by the
scenario, alike for every model. Perturbed instances are left out, and trials count as configs.
Layout: helm's ``benchmark/runner.py`` and ``benchmark/metrics/statistic.py``
(https://github.com/stanford-crfm/helm), unchanged from 0.2 to 0.5.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import ScoreTableError
from .reader import Progress
from .rows import Row, reader_of_rows

_STATS, _SPEC = "per_instance_stats.json", "run_spec.json"
_NAMING = ("model", "model_deployment")


def can_read(path: Path) -> bool:
    """Whether a path is a run of HELM, or a directory with one in it."""
    return next(_runs(path), None) is not None


def task_of(name: str) -> str:
    """A run's name without its model: what was run, and how.

    Examples
    --------
    >>> task_of("mmlu:subject=philosophy,method=joint,model=openai_gpt2")
    'mmlu:subject=philosophy,method=joint'
    >>> task_of("gsm:model=openai_gpt2")
    'gsm'
    """
    scenario, _, arguments = name.partition(":")
    kept = [a for a in arguments.split(",") if a and a.partition("=")[0] not in _NAMING]
    return f"{scenario}:{','.join(kept)}" if kept else scenario


def rows(path: Path, notes: list[str], on_progress: Progress) -> Iterator[Row]:
    """Every score of runs of HELM; see `reader_of_rows`."""
    runs = list(_runs(path))
    for n, run in enumerate(runs):
        try:
            spec = json.loads((run / _SPEC).read_text(encoding="utf-8"))
            stats = json.loads((run / _STATS).read_text(encoding="utf-8"))
            model, task = str(spec["adapter_spec"]["model"]), task_of(str(spec["name"]))
            yield from [row for one in stats for row in _stats_of(one, model, task)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            reason = f"{e.args[0]!r} is missing" if isinstance(e, KeyError) else e
            raise ScoreTableError(f"{run}: not a readable run of HELM ({reason})") from None
        if on_progress is not None:
            on_progress(n + 1, len(runs))


def _runs(path: Path) -> Iterator[Path]:
    if path.is_file():
        files = [path] if path.name == _STATS else []
    else:
        files = sorted(path.rglob(_STATS))
    yield from (file.parent for file in files if (file.parent / _SPEC).is_file())


def _stats_of(one: dict[str, Any], model: str, task: str) -> Iterator[Row]:
    if one.get("perturbation"):
        return
    config = f"trial={one.get('train_trial_index', 0)}"
    for stat in one["stats"]:
        if stat.get("count") and stat.get("mean") is not None:
            name, score = str(stat["name"]["name"]), float(stat["mean"])
            yield Row(model, task, name, str(one["instance_id"]), score, config)


READER = reader_of_rows("helm", "runs of HELM (per_instance_stats.json)", can_read, rows)
