"""Keeps measured figures, and writes them into the page that shows them.

    python benchmarks/ranking_quality.py --sections fixed --kinds random --out found.json
    python docs/.hooks/measured.py found.json "THE COMMAND AS RUN" [PART]

keeps the figures of the sections and folds that were run in docs/evidence/measured, with the hash
of the sources that made them, and writes the tables and the chart. What was not run stays as it
was. PART is another name for them. `--fill` alone writes the page anew.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Figures of `benchmarks/ranking_quality.py`, with how they were made.
MEASURED = ROOT / "docs" / "evidence" / "measured" / "quality.json"
PAGE = ROOT / "docs" / "evidence" / "tables.md"
LIMITS = ROOT / "docs" / "limits.md"
CHART = ROOT / "docs" / "evidence" / "methods.svg"
_PLACE = re.compile(r"<!-- quality: (\w+) -->\n.*?<!-- end of quality -->", re.S)
_NAMES = {
    "default": "**default**",
    "sample": "sample (no bank)",
    "paired": "common items, paired t-test (no bank)",
    "paired_difference": "common items, difference estimator",
    "paper": "paper",
    "static": "static (best fixed subset)",
}


def filled(page: str) -> str:
    """The page with its tables as the figures have them."""
    return _PLACE.sub(
        lambda m: f"<!-- quality: {m[1]} -->\n{quality(m[1])}\n<!-- end of quality -->", page
    )


def quality(part: str) -> str:
    """The table of methods, "short", or one of `benchmarks/rivals.py --out`."""
    if part == "short":
        return _short(json.loads(MEASURED.read_text(encoding="utf-8")))
    if part == "limits":
        return _limits()
    found = json.loads((MEASURED.parent / f"{part}.json").read_text(encoding="utf-8"))
    return _shares(found) if part == "shares" else _rivals(found)


def _short(measured: dict[str, Any]) -> str:
    shown = [(n, measured["tables"][f"random, {n} items"]) for n in (20, 50, 100)]
    head = ["method"]
    for n, _ in shown:
        head += [f"tau at {n}", f"decided at {n}"]
    head += ["decided right", "RMSE at 20", "tau at 20: default minus it"]
    rows = []
    for method in shown[0][1]:
        row = [_NAMES[method]]
        for _, methods in shown:
            row += [
                _cell(methods[method], "tau", "{:.2f}"),
                _cell(methods[method], "decided", "{:.0%}"),
            ]
        said = sum(m[method].get("said_all", 0) for _, m in shown)
        right = sum(m[method].get("hits_all", 0) for _, m in shown)
        row.append(f"{right / said:.1%}" if said else "–")
        rows.append([*row, _cell(shown[0][1][method], "rmse", "{:.3f}")])
        less = shown[0][1][method].get("tau_minus")
        rows[-1].append(f"{less[0]:+.3f} ± {less[1]:.3f}" if less else "–")
    made = measured["made"]["random"]
    by = f"Made by `{made['command']}` with sources of hash {made['sources']}; ± is one standard "
    return f"{_table(head, rows)}\n\n{by}error over score tables."


_RIVALS = {
    "aipw": ("AIPW", ("gap", "tau")),
    "random": ("t-test", ("gap", "decided")),
    "faq": ("FAQ", ("gap", "cover", "decided")),
}
_OWN = {
    "gap": "gap",
    "bias": "bias",
    "cover": "95% coverage (worst table)",
    "z2": "error / stated of pairs",
    "decided": "decided (right)",
    "tau": "tau",
}


def _rivals(measured: dict[str, Any]) -> str:
    """The method and its rivals: one row by number of items and kind of new models."""
    shown = {
        (kind, n): {t: of for t, of in tables.items() if f"default, {n}" in of}
        for kind, tables in measured["found"].items()
        for n in sorted({int(k.split(", ")[1]) for of in tables.values() for k in of})
    }
    asked = {k.split(", ")[0] for tables in shown.values() for of in tables.values() for k in of}
    rivals = {m: of for m, of in _RIVALS.items() if m in asked}
    head = ["new models", "items", *_OWN.values()]
    for name, keys in rivals.values():
        head += [f"{name}: {'gap more' if k == 'gap' else _OWN[k]}" for k in keys]
    rows = []
    for (kind, n), tables in shown.items():
        first = {t: of[f"default, {n}"] for t, of in tables.items()}
        row = [f"{kind} ({len(first)})", str(n), *(_cell_of(first, k) for k in _OWN)]
        for method, (_, keys) in rivals.items():
            own = {t: of.get(f"{method}, {n}") for t, of in tables.items()}
            for k in keys:
                row.append("" if None in own.values() else _cell_of(own, k, first))
        rows.append(row)
    by = (
        f"Made by `{measured['command']}` with sources of hash {measured['sources']}. In brackets "
        "after new models: score tables. *Gap more*: than that of `default`."
    )
    return f"{_table(head, rows)}\n\n{by}"


def _limits() -> str:
    """Models near the bank, random and far from it: what is decided, beside a t-test."""
    rows = []
    for kind, file in (("near", "rivals"), ("random", "hold_outs"), ("far", "rivals")):
        found = json.loads((MEASURED.parent / f"{file}.json").read_text(encoding="utf-8"))
        tables = found["found"][kind]
        own, test = (
            {table: figures[f"{method}, 50"] for table, figures in tables.items()}
            for method in ("default", "random")
        )
        rows.append([kind, "50", _cell_of(own, "decided"), _cell_of(test, "decided")])
    head = ["new models", "items", "decided (right)", "t-test: decided (right)"]
    return _table(head, rows)


def _shares(measured: dict[str, Any]) -> str:
    """The method and the t-test where they err as often, and where they decide as much."""
    head = ["items", "t-test decides", "of these wrong", "`default`, as often wrong: right"]
    rows = [
        [
            f"{n} ({e['tables']:.0f} tables)",
            f"{e['decided']:.1%}",
            f"{e['wrong']:.1%}",
            f"{100 * e['more']:+.1f} ± {100 * e['more_error']:.1f} points",
            f"{100 * e['more_wrong']:+.2f} ± {100 * e['more_wrong_error']:.2f} points",
        ]
        for n, e in measured["equal"]["frontier"].items()
    ]
    by = f"Made by `{measured['command']}` with sources of hash {measured['sources']}."
    return f"{_table([*head, '`default`, as many decided: wrong'], rows)}\n\n{by}"


def _cell_of(own: dict[str, Any], key: str, first: dict[str, Any] | None = None) -> str:
    """The mean over tables, of gaps with how much more they are than the `first` ones."""
    found = [of[key] for of in own.values()]
    mean = sum(found) / len(found)
    if key == "gap" and first:
        d = [of["gap"] - first[t]["gap"] for t, of in own.items()]
        centre = sum(d) / len(d)
        error = (sum((x - centre) ** 2 for x in d) / max(len(d) - 1, 1) / len(d)) ** 0.5
        return f"{centre:+.4f} ± {error:.4f}"
    if key == "decided":
        right = sum(of["right"] for of in own.values()) / max(sum(found), 1e-9)
        return f"{mean:.0%} ({right:.1%})"
    if key == "cover":
        return f"{mean:.1%} ({min(found):.0%})"
    if key == "z2":
        return f"{mean**0.5:.2f}"
    return f"{mean:+.4f}" if key == "bias" else f"{mean:.4f}" if key == "gap" else f"{mean:.2f}"


def _cell(of: dict[str, Any], key: str, form: str) -> str:
    return "–" if of.get(key) is None else form.format(of[key])


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *rows])


def keep(path: Path, command: str, instead: str | None = None) -> None:
    """Keep the figures of a run of the benchmark for the page, as the part `instead` if given."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from quality_tables import difference, outside, pooled
    from sources import sources

    found = json.loads(path.read_text(encoding="utf-8"))
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    for section, tables in found.items():
        for key, methods in tables.items():
            part, name = _named(section, key)
            part = instead or part
            of_script = sources("benchmarks/ranking_quality.py")
            measured["made"][part] = {"command": command, "sources": of_script}
            first = next(iter(methods.values()))
            kept = measured["tables"][f"{part}, {name}"] = {}
            for method, by_table in methods.items():
                own = list(by_table.values())
                of = {k: round(v, 5) for k, v in pooled(own).items() if not k.endswith("_se")}
                of |= {"tables": len(own), "said_all": sum(t.get("said", 0) for t in own)}
                of["hits_all"] = sum(t.get("hits", 0) for t in own)
                if by_table is first and any("z_low" in t for t in own):
                    of["outside"] = {k: outside(by_table, k) for k in ("z", "z_pairs")}
                if by_table is not first:
                    d = difference(list(first.values()), own, "tau")
                    of["tau_minus"] = [round(v, 4) for v in d or ()]
                    d = difference(list(first.values()), own, "decided")
                    of["decided_minus"] = [round(v, 4) for v in d or ()]
                    ratio = {t: first[t]["items"] / by_table[t]["items"] for t in by_table}
                    worst = max(ratio, key=lambda t: ratio[t])
                    mean = sum(ratio.values()) / len(ratio)
                    of["items_of_first"] = [round(mean, 3), round(ratio[worst], 3), worst]
                kept[method] = of
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    write()


def write() -> None:
    """The tables of the pages, and the chart, as the figures have them."""
    for page in (PAGE, LIMITS):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    CHART.write_text(drawn(), encoding="utf-8")


def drawn() -> str:
    """The chart of methods as the figures have it."""
    sys.path.insert(0, str(Path(__file__).parent))
    from evidence import chart

    return chart(json.loads(MEASURED.read_text(encoding="utf-8")))


def _named(section: str, key: str) -> tuple[str, str]:
    """The part that a table of the benchmark is of, and what tells it from the others."""
    if section == "fixed":
        part, name = key.split(", ")
        return part, name
    return section, "until all is decided"


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--fill"] else keep(Path(sys.argv[1]), *sys.argv[2:])
