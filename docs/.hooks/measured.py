"""Keeps measured figures, and writes them into the pages that show them.

    python benchmarks/ranking_quality.py --sections fixed --kinds random --out found.json
    python docs/.hooks/measured.py found.json COMMIT "THE COMMAND AS RUN" [PART]

keeps the figures of the sections and folds that were run in docs/measured, with the commit at which
they were made, and writes the tables and the chart. What was not run stays as it was.
PART is another name for them: "errors" for a run of many hold-out sets with `default` alone.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Figures of `benchmarks/ranking_quality.py`, with how they were made.
MEASURED = ROOT / "docs" / "measured" / "quality.json"
PAGES = (ROOT / "docs" / "limits.md", ROOT / "docs" / "compared.md")
CHART = ROOT / "docs" / "evidence.svg"
_PLACE = re.compile(r"<!-- quality: (\w+) -->\n.*?<!-- end of quality -->", re.S)
_NAMES = {
    "default": "**default**",
    "sample": "sample (no bank)",
    "paired": "common items, paired t-test (no bank)",
    "paired_difference": "common items, difference estimator",
    "paper": "paper",
    "static": "static (best fixed subset)",
    "default (each pair)": "default, confidence of each pair by itself",
    "sample (each pair)": "sample, confidence of each pair by itself",
}
_COLUMNS = (
    ("tau", "tau", "{:.3f}"),
    ("pairs decided", "decided", "{:.0%}"),
    ("decided right", "right", "{:.1%}"),
    ("RMSE of the estimate", "rmse", "{:.4f}"),
    ("bias", "bias", "{:+.4f}"),
    ("error / stated", "z", "{:.2f}"),
    ("the same of differences", "z_pairs", "{:.2f}"),
    ("95% coverage", "cover", "{:.0%}"),
    ("the same of differences", "cover_pairs", "{:.0%}"),
)
_NATURAL = (
    ("items per model", "items", "{:.0f}"),
    ("of all items", "share", "{:.0%}"),
    ("pairs decided", "decided", "{:.1%}"),
    ("decided right", "right", "{:.2%}"),
    ("rankings with any wrong pair", "any_wrong", "{:.1%}"),
    ("tau", "tau", "{:.3f}"),
)


def filled(page: str) -> str:
    """The page with its tables as the figures have them."""
    return _PLACE.sub(
        lambda m: f"<!-- quality: {m[1]} -->\n{quality(m[1])}\n<!-- end of quality -->", page
    )


def quality(part: str) -> str:
    """The tables of one kind of fold, or of one section; "short" is that of compared.md."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    if part == "short":
        return _short(measured)
    made = measured["made"][part]
    by = (
        f"Made by `{made['command']}` at commit {made['commit']}. A method without a model of "
        "its own states no error."
    )
    if part == "errors":
        return f"{_errors(measured)}\n\n{by}"
    if part == "worlds":
        return f"{_worlds(measured)}\n\n{by}"
    columns = _NATURAL if part == "natural" else _COLUMNS
    parts = []
    for key, methods in measured["tables"].items():
        kind, what = key.split(", ", 1)
        if kind != part:
            continue
        last = ["tau: default minus it", "decided: default minus it"]
        if part == "natural":
            last = ["items of default per item of it (worst table)"]
        head = ["method", *(title for title, _, _ in columns), *last]
        end = _items if part == "natural" else _differences
        rows = [[_NAMES[m], *_figures(of, columns), *end(of)] for m, of in methods.items()]
        first = next(iter(methods.values()))
        title = what.replace("items", "items per model").capitalize()
        parts.append(f"{title}, {first['tables']} score tables:\n\n{_table(head, rows)}")
    return "\n\n".join([*parts, by])


def _errors(measured: dict[str, Any]) -> str:
    """Whether the errors that `default` states are true, table by table."""
    columns = [c for c in _COLUMNS if c[1] in ("z", "z_pairs", "cover", "cover_pairs")]
    head = ["items", "tables", *(title for title, _, _ in columns), "z surely not near 1"]
    head += ["that of differences"]
    rows = []
    for key, methods in measured["tables"].items():
        part, *what = key.split(", ")
        if part == "errors":
            of = methods["default"]
            names = [
                ", ".join(f"{n} ({a:.2f} to {b:.2f})" for n, (a, b) in found.items()) or "none"
                for found in of["outside"].values()
            ]
            rows.append([what[0].split()[0], str(of["tables"]), *_figures(of, columns), *names])
    return _table(head, rows)


def _worlds(measured: dict[str, Any]) -> str:
    """One table of all synthetic worlds, at two numbers of items."""
    head = ["world", "items", "method", *(title for title, _, _ in _COLUMNS)]
    rows = []
    for key, methods in measured["tables"].items():
        part, *what = key.split(", ")
        if part == "worlds" and what[1] in ("20 items", "100 items"):
            for m, of in methods.items():
                rows.append([what[0], what[1].split()[0], _NAMES[m], *_figures(of, _COLUMNS)])
    return _table(head, rows)


def _short(measured: dict[str, Any]) -> str:
    shown = [(n, measured["tables"][f"random, {n} items"]) for n in (20, 50, 100)]
    head = ["method"]
    for n, _ in shown:
        head += [f"tau at {n}", f"decided at {n}"]
    head += ["decided right", "RMSE at 20"]
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
    return _table(head, rows)


def _items(of: dict[str, Any]) -> list[str]:
    found = of.get("items_of_first")
    return ["–" if found is None else f"{found[0]:.2f} ({found[1]:.2f}, {found[2]})"]


def _differences(of: dict[str, Any]) -> list[str]:
    tau, decided = of.get("tau_minus"), of.get("decided_minus")
    return [
        "–" if not tau else f"{tau[0]:+.3f} ± {tau[1]:.3f}",
        "–" if not decided else f"{100 * decided[0]:+.0f} ± {100 * decided[1]:.0f} points",
    ]


def _figures(of: dict[str, Any], columns: Any) -> list[str]:
    return [_cell(of, key, form) for _, key, form in columns]


def _cell(of: dict[str, Any], key: str, form: str) -> str:
    return "–" if of.get(key) is None else form.format(of[key])


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *rows])


def keep(path: Path, commit: str, command: str, instead: str | None = None) -> None:
    """Keep the figures of a run of the benchmark for the pages, as the part `instead` if given."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from quality_tables import difference, outside, pooled

    found = json.loads(path.read_text(encoding="utf-8"))
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    for section, tables in found.items():
        for key, methods in tables.items() if section != "left_out" else ():
            part, name = _named(section, key)
            part = instead or part
            measured["made"][part] = {"command": command, "commit": commit}
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
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    CHART.write_text(drawn(), encoding="utf-8")


def drawn() -> str:
    """The chart of compared.md as the figures have it."""
    sys.path.insert(0, str(Path(__file__).parent))
    from evidence import chart

    return chart(json.loads(MEASURED.read_text(encoding="utf-8")))


def _named(section: str, key: str) -> tuple[str, str]:
    """The part that a table of the benchmark is of, and what tells it from the others."""
    if section == "fixed":
        part, name = key.split(", ")
        return part, name
    if section.startswith("world "):
        return "worlds", f"{section.removeprefix('world ')}, {key.split(', ')[1]}"
    return section, "until all is decided"


if __name__ == "__main__":
    keep(Path(sys.argv[1]), *sys.argv[2:])
