"""Keeps measured figures, and writes them into the pages that show them.

    python benchmarks/ranking_quality.py --sections fixed --kinds random --out found.json
    python docs/.hooks/measured.py found.json "THE COMMAND AS RUN" [PART]

keeps the figures of the sections and folds that were run in docs/measured, with the hash of the
sources that made them, and writes the tables and the chart. What was not run stays as it was.
PART is another name for them. `--fill` alone writes the pages anew.
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
#: Figures of `benchmarks/rivals.py --out`: on the matrices of its protocol, and on all tables.
RIVALS = ("rivals", "hold_outs")
CHART = ROOT / "docs" / "evidence.svg"
_PLACE = re.compile(r"<!-- quality: (\w+) -->\n.*?<!-- end of quality -->", re.S)
_NAMES = {
    "default": "**default**",
    "sample": "sample (no bank)",
    "paired": "common items, paired t-test (no bank)",
    "paired_difference": "common items, difference estimator",
    "paper": "paper",
    "static": "static (best fixed subset)",
}
_COLUMNS = (
    ("tau", "tau", "{:.3f}"),
    ("pairs decided", "decided", "{:.0%}"),
    ("decided right", "right", "{:.1%}"),
    ("RMSE of the estimate", "rmse", "{:.4f}"),
    ("error / stated", "z", "{:.2f}"),
    ("the same of differences", "z_pairs", "{:.2f}"),
    ("95% coverage", "cover", "{:.0%}"),
)
_SHOWN = ("20 items", "50 items")


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
    if part in RIVALS:
        return _rivals(json.loads((MEASURED.parent / f"{part}.json").read_text(encoding="utf-8")))
    made = measured["made"][part]
    by = (
        f"Made by `{made['command']}` with sources of hash {made['sources']}. A method without a "
        "model of its own states no error."
    )
    parts = []
    for key, methods in measured["tables"].items():
        kind, what = key.split(", ", 1)
        if kind != part or (part == "random" and what not in _SHOWN):
            continue
        last = ["tau: default minus it", "decided: default minus it"]
        head = ["method", *(title for title, _, _ in _COLUMNS), *last]
        rows = [
            [_NAMES[m], *_figures(of, _COLUMNS), *_differences(of)] for m, of in methods.items()
        ]
        first = next(iter(methods.values()))
        title = what.replace("items", "items per model").capitalize()
        parts.append(f"{title}, {first['tables']} score tables:\n\n{_table(head, rows)}")
    return "\n\n".join([*parts, by])


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


_RIVALS = {
    "default": "**default**",
    "aipw": "AIPW",
    "random": "random items, t-test",
    "faq": "FAQ",
}


def _rivals(measured: dict[str, Any]) -> str:
    """The method beside its rivals, at every number of items of every kind of new models."""
    head = ["new models", "items", "method", "gap", "gap minus that of default", "bias"]
    head += [
        "95% coverage (worst table)",
        "error / stated of pairs",
        "pairs decided",
        "right",
        "tau",
    ]
    rows = []
    for kind, tables in measured["found"].items():
        at = sorted({int(k.split(", ")[1]) for of in tables.values() for k in of})
        for n in at:
            first = {t: of[f"default, {n}"] for t, of in tables.items() if f"default, {n}" in of}
            for method, name in _RIVALS.items():
                own = {t: tables[t].get(f"{method}, {n}") for t in first}
                if all(own.values()):
                    rows.append([f"{kind} ({len(own)})", str(n), name, *_beside(own, first)])
    by = (
        f"Made by `{measured['command']}` with sources of hash {measured['sources']}. In brackets: "
        "score tables, which weigh the same. ± is one standard error over them."
    )
    return f"{_table(head, rows)}\n\n{by}"


def _beside(own: dict[str, Any], first: dict[str, Any]) -> list[str]:
    def mean(key: str, form: str) -> str:
        found = [of[key] for of in own.values() if of.get(key) is not None]
        return form.format(sum(found) / len(found)) if len(found) == len(own) else "–"

    d = [of["gap"] - first[t]["gap"] for t, of in own.items()]
    centre = sum(d) / len(d)
    error = (sum((x - centre) ** 2 for x in d) / max(len(d) - 1, 1) / len(d)) ** 0.5
    cover = mean("cover", "{:.1%}")
    if cover != "–":
        cover += f" ({min(of['cover'] for of in own.values()):.0%})"
    z2 = mean("z2", "{}")
    said, right = (sum(of.get(k) or 0.0 for of in own.values()) for k in ("decided", "right"))
    return [
        mean("gap", "{:.4f}"),
        f"{centre:+.4f} ± {error:.4f}" if any(d) else "–",
        mean("bias", "{:+.4f}"),
        cover,
        z2 if z2 == "–" else f"{float(z2) ** 0.5:.2f}",
        mean("decided", "{:.0%}"),
        f"{right / said:.1%}" if said else "–",
        mean("tau", "{:.2f}"),
    ]


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


def keep(path: Path, command: str, instead: str | None = None) -> None:
    """Keep the figures of a run of the benchmark for the pages, as the part `instead` if given."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from quality_tables import difference, outside, pooled
    from sources import sources

    found = json.loads(path.read_text(encoding="utf-8"))
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    for section, tables in found.items():
        for key, methods in tables.items() if section != "left_out" else ():
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
    write() if sys.argv[1:] == ["--fill"] else keep(Path(sys.argv[1]), *sys.argv[2:])
