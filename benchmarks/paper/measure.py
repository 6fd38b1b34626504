"""The paper's experiments on a directory of score tables: resumable, seeded, table by table."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from lm_eval_ccat import ScoreTable, __version__
from lm_eval_ccat.errors import CcatError, ScoreTableError, UsageError
from lm_eval_ccat.files import replace_text, safe_name
from lm_eval_ccat.ranker.arguments import item_units
from lm_eval_ccat.scores.readers.long_form import outcomes
from lm_eval_ccat.simulation.strategies import chosen_methods

from . import page, studies
from .conformance import conformance_study
from .design import RESCALE, Design

# Part of the key of what is stored: a study that measures something else gets a new number.
STUDIES_VERSION = 4
STUDIES: dict[str, Callable[[ScoreTable, Design, Any], dict[str, Any]]] = {
    "replay": studies.replay,
    "families": studies.families,
    "sweep": studies.sweep,
    "information": studies.information,
    "conformance": conformance_study,
}

EPILOG = """\
examples:
  python benchmarks/paper/run --scores tables/ --out results/
  python benchmarks/paper/run --scores tables/ --out results/ --families families.json \\
      --scales scales.json --items items/ --units_columns source_chars,input_chars

prices.json    {"model": price of one unit, ...}
families.json  {"family": ["model", ...], ...}
scales.json    {"metric": {"range": [0, 25], "lower_is_better": true, "item_scaling": true}, ...}
               (item_scaling: each item over the fold's calibration models, as for BioLaySumm)
exclude.json   {"table": ["model", ...], ...}; the table "*" stands for all

The defaults are the paper's. Every table holds the rows that the paper prints
beside the ones measured here. All results are in OUT/experiments.json, and as
CSV, Markdown and plots (with matplotlib). An interrupted run goes on where it was.
"""


def names(text: str) -> tuple[str, ...]:
    """The parts of ``a,b``."""
    return tuple(part for part in text.split(",") if part)


def numbers(text: str) -> tuple[float, ...]:
    """Different numbers, written ``5,10``."""
    values = tuple(map(float, names(text)))
    if not values or len(set(values)) < len(values):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different numbers")
    return values


def temperature(text: str) -> float | None:
    """A number, or None for "all"."""
    return None if text == "all" else float(text)


def mapping(path: str) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise argparse.ArgumentTypeError(f"{path} is not a JSON object")
    return content


#: (flag, type, default, metavar, help).
OPTIONS: tuple[tuple[str, Any, Any, str, str], ...] = (
    ("methods", names, ("paper", "default"), "A,B", "methods with a bank"),
    ("holdout", int, 4, "N", "models per hold-out set"),
    ("folds", int, 5, "N", "hold-out sets"),
    ("seeds", int, 20, "N", "runs per hold-out set"),
    ("items_per_model", float, 20.0, "N", "budget"),
    ("levels", numbers, (5.0, 10.0, 20.0, 40.0, 70.0, 100.0), "A,B", "budgets of the sweep"),
    ("confidence", float, 0.95, "C", "of pairs and intervals"),
    (
        "temperature", temperature, 0.0, "T",
        "test held-out models at this temperature where they have several ('all': at the mean of "
        "their configs); all configs of the others calibrate",
    ),
    ("prices", mapping, None, "FILE", "price of one unit of each model; else drawn by the seed"),
    ("families", mapping, None, "FILE", "families of models, for the hold-out of families"),
    ("only", names, (), "TABLE[:METRIC],...", "not all tables"),
    ("studies", names, tuple(STUDIES), "A,B", f"some of {', '.join(STUDIES)}"),
    ("scales", mapping, {}, "FILE", "scales of metrics that are not known"),
    ("exclude", mapping, {}, "FILE", "models to leave out, per table"),
    ("max_models", int, None, "N", "cut larger tables to a seeded sample"),
    ("items", Path, None, "DIR", "tables of items, of the same names as the score tables"),
    ("units_columns", names, (), "A,B", "the first of these columns of a table of items is units"),
    ("seed", int, 0, "N", "of the sample of models"),
)  # fmt: skip


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of one run."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/paper/run",
        description="The experiments of arXiv:2601.13885 on any directory of score tables (several "
        "models, also at several temperatures), for each method with a bank.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--scores", required=True, type=Path, metavar="DIR", help="score tables")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where to write")
    for flag, kind, default, metavar, text in OPTIONS:
        parser.add_argument(f"--{flag}", type=kind, default=default, metavar=metavar, help=text)
    parser.add_argument(
        "--rescale",
        choices=RESCALE,
        default="range",
        help="what the method `paper` rescales scores by: the range of the calibration scores, "
        "nothing, or (holdout) the range of the held-out scores, as the authors do, which looks "
        "at what is to be predicted (default: range)",
    )
    parser.add_argument(
        "--drop_duplicates", action="store_true", help="leave out a model that equals an earlier"
    )
    args = parser.parse_args(argv)
    for method in chosen_methods(args.methods):
        if method.kind != "ranker":
            parser.error(f"{method.name!r} has no bank; name paper, default or both")
    for name in set(args.studies) - set(STUDIES):
        parser.error(f"--studies {name!r}: unknown; choose from {', '.join(STUDIES)}")
    return args


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
    sources = [
        Source(file.stem, metric, file)
        for file in sorted(folder.glob("*"))
        if file.suffix in (".parquet", ".csv")
        for metric in dict.fromkeys(outcome.metric for outcome in outcomes(file))
    ]
    if not sources:
        raise UsageError(f"{folder}: no .parquet or .csv score tables")
    known = {name for s in sources for name in (s.name, f"{s.name}:{s.metric}")}
    for wanted in set(only) - known:
        raise UsageError(f"{folder}: no table or table:metric {wanted!r} (only {sorted(known)})")
    return [s for s in sources if not only or {s.name, f"{s.name}:{s.metric}"} & set(only)]


def load(source: Source, args: argparse.Namespace) -> ScoreTable:
    """Read one table as the options say; leave out models and sample the rest.

    Raises
    ------
    ScoreTableError, ScaleError
        It cannot be read, or its scale is not known.
    """
    stated = args.scales.get(source.metric, {})
    table = ScoreTable.read(
        source.path,
        metric=source.metric,
        range=tuple(stated["range"]) if "range" in stated else None,
        lower_is_better=stated.get("lower_is_better"),
    )
    unwanted = {*args.exclude.get("*", ()), *args.exclude.get(source.name, ())}
    table = table.without(unwanted & set(table.models))
    if args.drop_duplicates:
        table = table.without(duplicates(table))
    if args.max_models is not None and len(table.models) > args.max_models:
        rng = np.random.default_rng(args.seed)
        chosen = sorted(rng.choice(len(table.models), args.max_models, replace=False))
        table = table.select(table.models[i] for i in chosen)
    if len(table.models) < 4:
        raise ScoreTableError(f"{source.path}: {len(table.models)} models are too few to hold out")
    return table


def duplicates(table: ScoreTable) -> list[str]:
    """Models whose scores all equal those of an earlier model."""
    first: dict[bytes, str] = {}
    scored = zip(table.models, table.model_scores())
    return [m for m, scores in scored if first.setdefault(scores.tobytes(), m) != m]


def units_of(source: Source, args: argparse.Namespace, table: ScoreTable) -> tuple[Any, str]:
    """Sizes of a table's items, and what they are."""
    for suffix in (".parquet", ".csv") if args.items else ():
        path = args.items / f"{source.name}{suffix}"
        for column in args.units_columns if path.is_file() else ():
            import pandas as pd

            items = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
            if column in items:
                return item_units(table.doc_ids, dict(zip(items.doc_id, items[column]))), column
    return None, "1 each"


def run_experiments(
    args: argparse.Namespace, design: Design, on_progress: Callable[[str, int, int], None]
) -> dict[str, dict[str, Any]]:
    """Run the studies on every table; by label of the table its ``facts`` and each study's figures.

    What is done lies in ``out/measured`` and is not done again while table, settings and version
    are the same. What a study cannot do on a table is a note in the results, not the end of them.
    """
    sources = find_sources(args.scores, args.only)
    store = args.out / "measured"
    store.mkdir(parents=True, exist_ok=True)
    measured: dict[str, dict[str, Any]] = {}
    steps = len(sources) * len(args.studies)
    for source in sources:
        entry = measured[source.label] = {}
        try:
            table = load(source, args)
            units, unit_name = units_of(source, args, table)
            # Refuses configs of which none is at the temperature.
            design.of_fold(table, table.models)
        except CcatError as error:
            entry["skipped"] = str(error)
            continue
        scaled = bool(args.scales.get(source.metric, {}).get("item_scaling"))
        of_table = replace(design, item_scaling=scaled)
        entry["facts"] = {
            "table": source.name,
            "metric": source.metric,
            "scale": table.scale.describe(),
            "models": len(table.models),
            "configs": len(table.row_model),
            "items": table.n_items,
            "missing": int((~np.isfinite(table.raw)).sum()),
            "units": unit_name,
            "item_scaling": scaled,
        }
        key = _key(table, units, of_table)
        for name in (n for n in STUDIES if n in args.studies):
            done = sum(len(e) - 1 for e in measured.values() if "facts" in e)
            on_progress(f"{source.label}: {name}", done, steps)
            file = store / f"{source.name}.{safe_name(source.metric)}.{name}.json"
            value = _stored(file, key)
            if value is None:
                try:
                    value = STUDIES[name](table, of_table, units)
                except CcatError as error:
                    value = {"skipped": str(error)}
                replace_text(file, json.dumps({"key": key, "value": value}, allow_nan=False))
            entry[name] = value
    return measured


def _stored(file: Path, key: str) -> dict[str, Any] | None:
    """What the file holds, where it was measured under the same key."""
    try:
        stored: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return dict(stored["value"]) if stored["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _key(table: ScoreTable, units: Any, design: Design) -> str:
    """Hash of all that a measurement depends on."""
    digest = hashlib.sha256()
    digest.update(np.ascontiguousarray(table.scores).tobytes())
    digest.update(b"" if units is None else np.ascontiguousarray(units).tobytes())
    digest.update(json.dumps([table.row_model, table.row_config]).encode())
    digest.update(json.dumps(asdict(design), sort_keys=True, default=list).encode())
    digest.update(f"{__version__}, studies {STUDIES_VERSION}".encode())
    return digest.hexdigest()


def show(what: str, done: int, total: int) -> None:
    """Progress, on standard error."""
    print(f"[{done}/{total}] {what}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write, and name what was written; 2 where an option is at fault."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] in (["--docs"], ["--beside"]):
        page.write_docs(argv)
        return 0
    try:
        args = parsed(argv)
        settings = {f.name: vars(args)[f.name] for f in fields(Design) if f.name in args}
        design = Design(**settings)
        measured = run_experiments(args, design, show)
    except CcatError as error:
        print(f"benchmarks/paper/run: error: {error}", file=sys.stderr)
        return 2
    document, tables, notes = page.write(measured, design, args.out)
    for line in (page.markdown(tables[0]), *notes, f"{len(tables)} tables: {args.out}/README.md"):
        print(line)
    for text in document["left_out"]:
        print(f"warning: {text}", file=sys.stderr)
    return 0
