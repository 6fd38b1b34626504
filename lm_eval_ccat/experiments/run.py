"""The paper's experiments on a directory of score tables: resumable, seeded, table by table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import CcatError, ScoreTableError, UsageError
from ..files import replace_text, safe_name
from ..scores import ScoreTable
from ..simulation.protocol import item_units
from . import studies
from .conformance import conformance_study
from .design import Design

# Part of the key of what is stored: a study that measures something else gets a new number.
_STUDIES_VERSION = 4
STUDIES = ("replay", "families", "sweep", "information", "conformance")


@dataclass(frozen=True)
class Setup:
    """What the directory does not say of its tables.

    Attributes
    ----------
    scales : dict
        ``{metric: {"range": [lo, hi], "lower_is_better": bool}}`` for metrics of unknown scale.
    exclude : dict
        ``{table name: [models]}`` to leave out; the name ``"*"`` stands for every table.
    drop_duplicates : bool
        Leave out a model whose scores all equal those of an earlier one.
    max_models : int, optional
        Larger tables are cut to a seeded sample of this many models.
    only : tuple of str
        ``table`` or ``table:metric``; all by default.
    items : Path, optional
        Directory of item tables of the same names.
    units_columns : tuple of str
        The first of these columns that an item table has is the size of its items.
    studies : tuple of str
        Which of `STUDIES` to make; the tables of the others hold the paper's rows alone.
    """

    scales: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exclude: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drop_duplicates: bool = False
    max_models: int | None = None
    only: tuple[str, ...] = ()
    items: Path | None = None
    units_columns: tuple[str, ...] = ()
    studies: tuple[str, ...] = STUDIES
    seed: int = 0


@dataclass(frozen=True)
class Source:
    """One metric of one table file."""

    name: str
    metric: str
    path: Path

    @property
    def label(self) -> str:
        return f"{self.name} {self.metric}"


def find_sources(folder: Path, only: Sequence[str] = ()) -> list[Source]:
    """Find the score tables of a directory and the metrics in each.

    Raises
    ------
    UsageError
        There is none, or a wanted one is missing.
    """
    from ..scores.readers.long_form import outcomes

    if not folder.is_dir():
        raise UsageError(f"{folder}: no such directory of score tables")
    files = sorted(p for p in folder.iterdir() if p.suffix in (".parquet", ".csv"))
    found = [
        Source(f.stem, metric, f)
        for f in files
        for metric in dict.fromkeys(outcome.metric for outcome in outcomes(f))
    ]
    if not found:
        raise UsageError(f"{folder}: no .parquet or .csv score tables")
    for wanted in only:
        if not any(wanted in (s.name, f"{s.name}:{s.metric}") for s in found):
            there = ", ".join(sorted({s.name for s in found}))
            raise UsageError(f"{folder}: no table or table:metric {wanted!r}; there are {there}")
    return [s for s in found if not only or s.name in only or f"{s.name}:{s.metric}" in only]


def load(source: Source, setup: Setup) -> ScoreTable:
    """Read one table as the setup says; leave out models and sample the rest.

    Raises
    ------
    ScoreTableError, ScaleError
        It cannot be read, or its scale is not known.
    """
    stated = setup.scales.get(source.metric, {})
    ends = stated.get("range")
    table = ScoreTable.read(
        source.path,
        metric=source.metric,
        range=None if ends is None else (float(ends[0]), float(ends[1])),
        lower_is_better=stated.get("lower_is_better"),
    )
    unwanted = {*setup.exclude.get("*", ()), *setup.exclude.get(source.name, ())}
    table = table.without(unwanted & set(table.models))
    if setup.drop_duplicates:
        table = table.without(duplicates(table))
    if setup.max_models is not None and len(table.models) > setup.max_models:
        rng = np.random.default_rng(setup.seed)
        chosen = sorted(rng.choice(len(table.models), setup.max_models, replace=False))
        table = table.select(table.models[i] for i in chosen)
    if len(table.models) < 4:
        raise ScoreTableError(f"{source.path}: {len(table.models)} models are too few to hold out")
    return table


def duplicates(table: ScoreTable) -> list[str]:
    """Models whose scores all equal those of an earlier model."""
    first: dict[bytes, str] = {}
    found = []
    for model, scores in zip(table.models, table.model_scores()):
        if first.setdefault(scores.tobytes(), model) != model:
            found.append(model)
    return found


def units_of(source: Source, setup: Setup, table: ScoreTable) -> tuple[Any, str]:
    """Sizes of a table's items, and what they are."""
    if setup.items is not None:
        for suffix in (".parquet", ".csv"):
            path = setup.items / f"{source.name}{suffix}"
            for column in setup.units_columns if path.is_file() else ():
                try:
                    return item_units(table, path, column), column
                except UsageError as error:
                    if "no column" not in str(error):
                        raise
    return None, "1 each"


def run_experiments(
    folder: str | Path,
    out: str | Path,
    design: Design | None = None,
    setup: Setup | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run every study on every table of a directory.

    What is done lies in ``out/measured`` and is not done again while table, settings and version
    are the same, so an interrupted run goes on where it was.

    Parameters
    ----------
    folder : path-like
        Of ``.parquet`` or ``.csv`` score tables.
    out : path-like
    design : Design, optional
    setup : Setup, optional
    on_progress : callable, optional
        Called with (what is running, steps done, steps in all).

    Returns
    -------
    dict of str to dict
        By label of the table: ``facts``, and what each study measured.
    """
    design, setup = design or Design(), setup or Setup()
    sources = find_sources(Path(folder), setup.only)
    store = Path(out) / "measured"
    store.mkdir(parents=True, exist_ok=True)
    measured: dict[str, dict[str, Any]] = {}
    steps = len(sources) * len(setup.studies)
    for number, source in enumerate(sources):
        entry: dict[str, Any] = {}
        measured[source.label] = entry
        try:
            table = load(source, setup)
            units, unit_name = units_of(source, setup, table)
            design.tested(table)  # refuses configs of which none is at the temperature
        except CcatError as error:
            entry["skipped"] = str(error)
            continue
        scaled = bool(setup.scales.get(source.metric, {}).get("item_scaling", design.item_scaling))
        own = replace(design, item_scaling=scaled)
        entry["facts"] = {**_facts(source, table, unit_name), "item_scaling": scaled}
        key = _key(table, units, own)
        for step, name in enumerate(setup.studies):
            if on_progress is not None:
                on_progress(f"{source.label}: {name}", number * len(setup.studies) + step, steps)
            file = store / f"{source.name}.{safe_name(source.metric)}.{name}.json"
            entry[name] = _stored(file, key, partial(_study, name, table, own, units))
    if on_progress is not None:
        on_progress("done", steps, steps)
    return measured


def _study(name: str, table: ScoreTable, design: Design, units: Any) -> dict[str, Any]:
    if name == "conformance":
        return studies.try_study(lambda: conformance_study(table, design))
    if name == "information" and "paper" not in design.methods:
        return {}
    study = getattr(studies, name)
    return studies.try_study(lambda: study(table, design, units))


def _facts(source: Source, table: ScoreTable, unit_name: str) -> dict[str, Any]:
    return {
        "table": source.name,
        "metric": source.metric,
        "scale": table.scale.describe(),
        "models": len(table.models),
        "configs": len(table.row_model),
        "items": table.n_items,
        "missing": int((~np.isfinite(table.raw)).sum()),
        "units": unit_name,
    }


def _stored(file: Path, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what is stored under the key; else make it and store it in one step."""
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        if held.get("key") == key:
            return dict(held["value"])
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    value = make()
    replace_text(file, json.dumps({"key": key, "value": value}, allow_nan=False))
    return value


def _key(table: ScoreTable, units: Any, design: Design) -> str:
    """Hash of all that a measurement depends on."""
    digest = hashlib.sha256()
    digest.update(np.ascontiguousarray(table.scores).tobytes())
    digest.update(b"" if units is None else np.ascontiguousarray(units).tobytes())
    digest.update(json.dumps([table.row_model, table.row_config]).encode())
    digest.update(json.dumps(asdict(design), sort_keys=True, default=list).encode())
    digest.update(f"{__version__}, studies {_STUDIES_VERSION}".encode())
    return digest.hexdigest()
