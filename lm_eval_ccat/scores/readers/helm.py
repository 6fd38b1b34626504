"""Reader of HELM's runs: ``run_spec.json`` and ``per_instance_stats.json`` in a folder per run.

``per_instance_stats.json`` is a list of ``{instance_id, train_trial_index, perturbation, stats}``;
a stat is ``{name: {name, split, ...}, count, sum, mean, ...}``. Instances are numbered by the
scenario, alike for every model. Perturbed instances are left out, and trials count as configs.
Layout: helm's ``benchmark/runner.py`` and ``benchmark/metrics/statistic.py``
(https://github.com/stanford-crfm/helm), unchanged from 0.2 to 0.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .bounded import json_value
from .rows import Row, files_at, reader_of_rows

_STATS, _SPEC = "per_instance_stats.json", "run_spec.json"
_NAMING = ("model", "model_deployment")


def logs(path: Path) -> list[Path]:
    """The runs of HELM at or below a path, by their files of statistics."""
    files = files_at(path, _STATS)
    return [f for f in files if f.name == _STATS and f.with_name(_SPEC).is_file()]


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


def rows(log: Path, notes: list[str]) -> Iterator[Row]:
    """Every score of a run of HELM; see `reader_of_rows`."""
    spec = json_value(log.with_name(_SPEC))
    model, task = str(spec["adapter_spec"]["model"]), task_of(str(spec["name"]))
    for one in json_value(log):
        if one.get("perturbation"):
            continue
        config = f"trial={one.get('train_trial_index', 0)}"
        for stat in one["stats"]:
            if stat.get("count") and stat.get("mean") is not None:
                name, score = str(stat["name"]["name"]), float(stat["mean"])
                yield Row(model, task, name, str(one["instance_id"]), score, config)


READER = reader_of_rows("helm", "runs of HELM (per_instance_stats.json)", logs, rows)
