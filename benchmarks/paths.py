"""Play rankings once, and read any stopping rule off them in seconds.

    python benchmarks/paths.py make [--worlds random,sum] [--folds 0,10] [--methods default,sample]
    python benchmarks/paths.py read [--rules ranker,one] [--horizons 50,100,200]

`make` plays pairs of models, real ones and pairs made equal (benchmarks/worlds.py), and keeps the
belief about each after every answer: in --cache, under a hash of the code and data that made it.
`read` says, by world, how often a rule calls equal models different, at how many real pairs it ever
rules out the true difference, how many of these it decides at a horizon, after how many items, and
how many wrongly. The second figure is the level that real models get: scores that are exchanged
have lost what two models differ by on some kinds of items. A rule of your own is a function of a
path and a horizon; `table` takes it from a script.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path as File
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys

sys.path.insert(0, str(File(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.sources import ROOT, code
from benchmarks.worlds import COLUMNS, WORLDS, Path, data_files, paths_of
from lm_eval_ccat.methods.belief import log_p_of_zeros, tail
from lm_eval_ccat.methods.method import method as method_named
from lm_eval_ccat.methods.policy import Mask
from lm_eval_ccat.ranker.looks import FAR_END, Looks

CACHE = File(os.environ.get("XDG_CACHE_HOME", File.home() / ".cache")) / "lm-eval-ccat" / "paths"
#: What a path depends on. Verdicts, looks and stopping rules are read off it.
MAKERS = (
    "lm_eval_ccat/bank", "lm_eval_ccat/methods", "lm_eval_ccat/metrics", "lm_eval_ccat/scores",
    "lm_eval_ccat/ranker/across.py", "lm_eval_ccat/ranker/weighted.py", "benchmarks/worlds.py",
)  # fmt: skip
LEVEL = 0.05


# -- making ---------------------------------------------------------------------------------------


def maker() -> str:
    """Return the hash of the code and the data that make paths."""
    digest = hashlib.sha256()
    for part in MAKERS:
        for file in sorted((ROOT / part).rglob("*.py")) or [ROOT / part]:
            digest.update(code(file.read_text(encoding="utf-8")).encode())
    for file in data_files():
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def make(folder: File, worlds: Sequence[str], folds: range, methods: Sequence[str]) -> None:
    """Play what is not kept yet; whoever interrupts it loses at most one table and fold."""
    folder.mkdir(parents=True, exist_ok=True)
    for fold, world, method in product(folds, worlds, methods):
        for table in WORLDS[world].tables:
            name = "-".join((method, world, table.replace(" ", "."), str(fold)))
            file = folder / f"{name}.npz"
            if file.exists():
                continue
            paths = list(paths_of(world, table, fold, method))
            parts = {f"looks{k}": path.looks for k, path in enumerate(paths)}
            about = np.array([(p.equal, p.n_items, *p.truth) for p in paths]).reshape(-1, 4)
            part = file.with_suffix(".part")
            with part.open("wb") as stream:
                np.savez_compressed(stream, about=about, **parts)
            part.rename(file)


def kept(folder: File, worlds: Iterable[str], method: str) -> Iterator[Path]:
    """Return the paths that are kept."""
    for world in worlds:
        for file in sorted(folder.glob(f"{method}-{world}-*.npz")):
            table, _, fold = file.stem.removeprefix(f"{method}-{world}-").rpartition("-")
            with np.load(file) as parts:
                for k, (equal, n_items, *truth) in enumerate(parts["about"].tolist()):
                    looks = parts[f"looks{k}"]
                    size = int(n_items)
                    yield Path(
                        method, world, table, int(fold), bool(equal), size, np.array(truth), looks
                    )


# -- rules ----------------------------------------------------------------------------------------

#: Of a path and a horizon: at which looks the pair is decided; shape (n_looks,).
Rule = Callable[[Path, int], Mask]


def by_looks(looks: Looks, path: Path) -> Mask:
    """Return at which looks a rule of the ranker decides a pair, by the belief at each."""
    size = np.abs(path.gap)
    tails = tail(size, path.variance, path.df)
    log = looks.log_p(tails, path.n, float(path.n_items))
    if not looks.single_look:
        leads = path.gap > 0.0
        zero = np.where(leads, path.zero_a, path.zero_b)
        zeros = np.where(leads, path.zeros_a, path.zeros_b)
        log = np.maximum(log, log_p_of_zeros(size, zero, zeros))
    return np.asarray((log <= np.log(LEVEL)) & (size > 0.0))


def ranker(path: Path, horizon: int) -> Mask:
    """The ranker's own rule."""
    with_bank = method_named(path.method).calibrates
    return by_looks(Looks(horizons=(horizon,), with_bank=with_bank), path)


def unlimited(path: Path, horizon: int) -> Mask:
    """The ranker's own rule where no horizon is known."""
    return by_looks(Looks(), path)


def one(path: Path, horizon: int) -> Mask:
    """A single look, at the horizon."""
    return np.asarray(by_looks(Looks(single_look=True), path) & (path.n == horizon))


RULES: dict[str, Rule] = {"ranker": ranker, "unlimited": unlimited, "one": one}


# -- reading --------------------------------------------------------------------------------------


class Stop(NamedTuple):
    """Where a rule stops a path: items of each model, and whether it decides, and wrongly."""

    items: float
    decided: bool
    wrong: bool


def stop(rule: Rule, path: Path, horizon: int) -> Stop:
    """Return where a rule stops a path; a short table has a shorter horizon."""
    horizon = min(horizon, int(path.n.max()))
    within = path.n <= horizon
    decided = rule(path, horizon) & within
    if not decided.any():
        return Stop(float(horizon), False, False)
    k = int(np.argmax(decided))
    wrong = path.gap[k] * float(np.subtract(*path.truth)) < 0.0
    return Stop(float(max(path.had_a[k], path.had_b[k])), True, bool(wrong))


def moved(path: Path, by: float) -> Path:
    """Return a path whose differences are larger by some amount; its true difference stays."""
    looks = path.looks.copy()
    looks[:, COLUMNS.index("gap")] += by
    return replace(path, looks=looks)


def excludes(rule: Rule, path: Path, horizon: int, difference: float) -> Mask:
    """Return at which looks the interval that inverts a rule excludes a difference.

    Only the end beside 0 of a pair that the rule decides lies where the rule says: with a bank, the
    ranker moves the others out (`FAR_END`).
    """
    horizon = min(horizon, int(path.n.max()))
    within = path.n <= horizon
    apart = moved(path, -difference)
    beyond = rule(apart, horizon) & within
    if rule is one or not method_named(path.method).calibrates:
        return beyond
    decides = rule(path, horizon) & (apart.gap * path.gap > 0.0)
    looks = apart.looks.copy()
    looks[:, COLUMNS.index("variance")] *= FAR_END**2
    return beyond & (decides | rule(replace(apart, looks=looks), horizon))


def ruled_out(rule: Rule, path: Path, horizon: int) -> bool:
    """Return whether the interval at any look excludes the true difference."""
    return bool(excludes(rule, path, horizon, float(np.subtract(*path.truth))).any())


def called_equivalent(rule: Rule, path: Path, horizon: int, margin: float) -> bool:
    """Return whether any look shows that two models differ by less than a margin, on [0, 1]."""
    below, above = (excludes(rule, path, horizon, end) for end in (-margin, margin))
    return bool((below & above & (np.abs(path.gap) < margin)).any())


def equivalences(
    paths: Sequence[Path], rule: Rule, horizons: Sequence[int], margins: Sequence[float]
) -> str:
    """Return, by horizon and margin, the real pairs that are called equivalent, and wrongly."""
    lines, real = [], [path for path in paths if not path.equal]
    far = {margin: [abs(np.subtract(*path.truth)) > margin for path in real] for margin in margins}
    for horizon, margin in product(horizons, margins):
        called = [called_equivalent(rule, path, horizon, margin) for path in real]
        wrongly = sum(c and f for c, f in zip(called, far[margin]))
        lines.append(
            f"horizon {horizon}, within {margin:g}: {sum(called) - wrongly} of "
            f"{len(real) - sum(far[margin])} closer pairs called equivalent, {wrongly} of "
            f"{sum(far[margin])} others"
        )
    return "\n".join(lines)


def share(values: Sequence[bool], cells: Sequence[object]) -> str:
    """Return a share in per cent with its standard error over cells."""
    if not len(values):
        return "       -     "
    p = float(np.mean(values))
    sums: dict[object, float] = {}
    for value, cell in zip(values, cells):
        sums[cell] = sums.get(cell, 0.0) + float(value) - p
    error = max(float(np.sum(np.square(list(sums.values()))) ** 0.5), 0.5) / len(values)
    return f"{100 * p:5.1f} +- {100 * error:3.1f}"


def table(paths: Sequence[Path], rules: dict[str, Rule], horizons: Sequence[int]) -> str:
    """Return, by horizon, world and rule, what is decided; ratios are to the first rule."""
    lines = []
    head = (
        f"{'equal called different':>48}{'truth ruled out':>16}{'real decided':>16}"
        "  wrong  items  ratio"
    )
    for horizon in horizons:
        lines += [f"horizon {horizon}", head]
        stops = {
            name: [stop(rule, path, horizon) for path in paths] for name, rule in rules.items()
        }
        off = {
            name: [ruled_out(rule, path, horizon) for path in paths] for name, rule in rules.items()
        }
        first = next(iter(stops.values()))
        worlds = list(dict.fromkeys(path.world for path in paths))
        for world in (*worlds, "all"):
            chosen = [k for k, path in enumerate(paths) if world in (path.world, "all")]
            for name, found in stops.items():
                row = _row(paths, found, off[name], first, chosen)
                lines.append(f"{world:12}{name:12}{row}")
    return "\n".join(lines)


def _row(
    paths: Sequence[Path],
    found: Sequence[Stop],
    off: Sequence[bool],
    first: Sequence[Stop],
    chosen: Sequence[int],
) -> str:
    equal = [k for k in chosen if paths[k].equal]
    real = [k for k in chosen if not paths[k].equal]
    cell = {k: (paths[k].table, paths[k].fold) for k in chosen}
    decides = [stop.decided for stop in found]
    both = [k for k in real if found[k].decided and first[k].decided]
    ratio = np.mean([np.log(found[k].items / first[k].items) for k in both]) if both else np.nan
    items = np.mean([found[k].items for k in real]) if real else np.nan
    different, ruled_out, decided = (
        share([values[k] for k in which], [cell[k] for k in which])
        for values, which in ((decides, equal), (off, real), (decides, real))
    )
    wrong = sum(found[k].wrong for k in real)
    shares = f"{different} of {len(equal):<6}{ruled_out:>16}{decided:>16}"
    return f"{shares}{wrong:7}{items:7.1f}{np.exp(ratio):7.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("make", "read"))
    parser.add_argument("--cache", type=File, default=CACHE)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--methods", default="default,sample")
    parser.add_argument("--folds", default="0,10", help="first and one after the last")
    parser.add_argument("--rules", default="ranker")
    parser.add_argument("--horizons", default="50,100,200")
    margins = "read which pairs are called equivalent within these margins, too: .02,.05"
    parser.add_argument("--equivalent", default="", help=margins)
    parser.add_argument("--hash", help="read what this code made; default the code as it is")
    given = parser.parse_args()
    folder = given.cache / (given.hash or maker())
    worlds, methods = given.worlds.split(","), given.methods.split(",")
    if given.what == "make":
        make(folder, worlds, range(*map(int, given.folds.split(","))), methods)
    for method in methods if given.what == "read" else ():
        paths = list(kept(folder, worlds, method))
        rules = {name: RULES[name] for name in given.rules.split(",")}
        print(f"{method}: {len(paths)} paths made by {folder.name}")
        horizons = [int(h) for h in given.horizons.split(",")]
        print(table(paths, rules, horizons))
        if given.equivalent:
            margins_given = [float(margin) for margin in given.equivalent.split(",")]
            print(equivalences(paths, rules[given.rules.split(",")[0]], horizons, margins_given))


if __name__ == "__main__":
    main()
