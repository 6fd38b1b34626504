"""The result of a ranking on a terminal: a headline, a table, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ..harness.signature import in_words
from ..report.words import one_look
from ..upkeep.findings import plural
from ..visible import visible_values
from .parsing import prints_json, write_json
from .streams import to_draw

if TYPE_CHECKING:
    from ..live.results import Result

#: A matrix of more models than this is left to the JSON.
MATRIX_MODELS = 12
#: Open pairs of which it is said what would decide them.
MOST_PAIRS = 4
#: Models that find room in the table of tasks; of more the JSON has all.
BOARD_MODELS = 8


def show(result: Result, target: str | None, out: TextIO) -> None:
    """Print a result or the state of a run, or write it where ``--json`` says."""
    content = result.content
    write_json(target, content, out)
    if prints_json(target):
        return
    from rich.console import Console

    print_result(Console(file=to_draw(out), highlight=False), content)
    if content["interrupted"] and result.run_dir is not None:
        print(f"Go on with --resume; everything is kept in {result.run_dir}.", file=out)
    if not content.get("finished", True):
        in_flight = plural(len(content["in_flight"]), "document")
        print(f"Not finished; {in_flight} in flight.", file=out)


def print_result(console: Any, content: Mapping[str, Any]) -> None:
    """Print a result as `lm_eval_ccat.live.results.Result` holds it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    content = visible_values(content, content["models"].keys())
    models = content["models"]
    order = list(content["order"])
    names = order + [n for n in models if n not in order]
    money = content["cost_unit"] == "usd"
    console.print(Text(content["headline"], style="bold"), soft_wrap=True)
    table = Table(
        title=Text(f"{content['metric']}: estimates of the full benchmark's score"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("model", no_wrap=True)
    table.add_column("estimate", justify="right", no_wrap=True)
    table.add_column(f"{100 * content['confidence']:g}% interval", no_wrap=True)
    for title in ("items", *(("cost",) if money else ()), "vs next"):
        table.add_column(title, justify="right", no_wrap=True)
    number = _number_format(content)
    for name in names:
        block = models[name]
        tied = any(name in group for group in content["ties"])
        rank = f"{block['rank']}{'=' if tied else ''}" if block["rank"] else "-"
        low, high = block["interval"]
        mark = "~" if block.get("tokens", {}).get("estimated") else ""
        known = block.get("known", False)
        seen = known or block["n_items"] > 0
        table.add_row(
            rank,
            Text(name),
            number(block["estimate"]) if seen else "-",
            f"{number(low)} to {number(high)}" if seen else "-",
            "known" if known else str(block["n_items"]),
            *((f"${block['cost']:.4g}{mark}",) if money else ()),
            _against_next(content, name, order),
        )
    _print_whole(console, table)
    if content.get("outcomes"):
        _print_whole(console, _outcomes(content, names))
    if content.get("board"):
        _print_whole(console, _board(content["board"], names))
    for line in notes(content):
        console.print(Text(line), soft_wrap=True)


def _outcomes(content: Mapping[str, Any], names: list[str]) -> Any:
    """Every outcome's estimates beside each other, and the order by each of them."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    outcomes = content["outcomes"]
    title = Text("Of the same answers: estimate ± standard error, rank")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for name, block in outcomes.items():
        weight = f"weight {block['weight']:g}" if block["weight"] else "reported"
        table.add_column(Text(f"{name}\n({weight})"), justify="right")
    formats = {name: _number_format(block) for name, block in outcomes.items()}
    for model in names:
        cells = []
        for name, block in outcomes.items():
            one, number = block["models"][model], formats[name]
            rank = f" ({one['rank']})" if one["rank"] else ""
            seen = f"{number(one['estimate'])} ± {number(one['standard_error'])}{rank}"
            cells.append(seen if one["n_items"] else "-")
        table.add_row(Text(model), *cells)
    return table


def _board(columns: Any, names: list[str]) -> Any:
    """The average, every group and every task: a row each, a column per model."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = Text("Estimate ± standard error (items)")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", overflow="fold")
    shown = names[:BOARD_MODELS]
    for name in shown:
        table.add_column(Text(name), justify="right")
    for column in columns:
        weight = f" ({100 * column['weight']:.3g}%)" if "weight" in column else ""
        cells = [_cell(column["models"][name]) for name in shown]
        # Groups stand between the average and the tasks.
        label = column["name"] if column["kind"] != "group" else f"group {column['name']}"
        table.add_row(Text(label + weight), *cells)
    return table


def _cell(one: Mapping[str, Any]) -> str:
    if one["too_few"]:
        return f"too few items ({one['items']})"
    items = f" ({one['items']})" if one["items"] else ""
    return f"{one['estimate']:.4g} ± {one['standard_error']:.2g}{items}"


def _print_whole(console: Any, table: Any) -> None:
    """Print a table as wide as it is: a name cut or folded in the middle is another name."""
    from rich.measure import Measurement

    unbound = console.options.update(max_width=10_000)
    title, table.title = table.title, None  # a table folds its title to its own width
    if title is not None:
        console.print(title, style="italic", soft_wrap=True)
    width = max(console.width, Measurement.get(console, unbound, table).maximum)
    console.print(table, width=width, crop=False)


def _number_format(content: Mapping[str, Any]) -> Callable[[float], str]:
    """Three decimals for scores of about 1, two for percentages."""
    largest = max(abs(end) for block in content["models"].values() for end in block["interval"])
    return (lambda x: f"{x:.3f}") if largest <= 2 else (lambda x: f"{x:.2f}")


def notes(content: Mapping[str, Any]) -> list[str]:
    """What stands below the table: ties, failures, why it stopped, how to read it."""
    lines, number = [], _number_format(content)
    for group in content["ties"]:
        lines.append(f"Not separated: {', '.join(group)}.")
    for a, b in content["separated_within_ties"]:
        lines.append(f"{a} and {b} are separated from each other, though not from those between.")
    lines += _outlook(content)
    if why := one_look(content):
        lines.append(why)
    for name, block in content["models"].items():
        audit, place = block.get("audit"), block.get("place")
        if place:
            lines.append(f"{name}: {place['in_words']}.")
        if audit and audit["estimate"] is not None:
            verdict = "agrees with" if audit["agrees"] else "contradicts"
            lines.append(
                f"{name}: the {audit['n']} documents drawn at random give {audit['estimate']:.4g} "
                f"(standard error {audit['standard_error']:.2g}), which {verdict} the estimate."
            )
        lines += [f"{name} {finding}." for finding in block.get("findings", ())]
        if block["set_aside"]:
            lines.append(f"{name} was set aside: {block['set_aside']}")
        elif block["failed"]:
            lines.append(
                f"{name} failed on {plural(len(block['failed']), 'document')}; they count as not "
                f"seen, not as 0. The first: {block['failed'][0]['doc_id']}: "
                f"{block['failed'][0]['reason']}"
            )
        if block.get("from_prior"):
            lines.append(
                f"{name}: {block['from_prior']} of {block['n_items']} answers were given before "
                "and cost nothing now."
            )
        warned = any(f" answers of {name} are empty" in w for w in content.get("warnings", ()))
        if block.get("empty_outputs") and not warned:
            answers = plural(block["empty_outputs"], "empty answer")
            lines.append(f"{name} gave {answers}, scored as given.")
    samples = {n: s for n in content["order"] if (s := content["models"][n].get("sample"))}
    if samples:
        found = (
            f"{n} {number(s['estimate'])} ± {number(s['standard_error'])} ({s['n']})"
            for n, s in samples.items()
        )
        lines.append(f"From the random documents, whatever the bank is worth: {', '.join(found)}.")
    if any(b.get("tokens", {}).get("estimated") for b in content["models"].values()):
        lines.append("~ tokens estimated from the length of the texts, so the cost is one too.")
    if len(content["order"]) <= MATRIX_MODELS and len(content["order"]) > 2:
        lines += _matrix(content)
    if content["cost_unit"] == "usd":
        lines.append(f"Spent ${content['cost']:.4g} in {content['seconds']:.0f} s.")
        if doubt := content.get("cost_in_doubt"):
            lines.append(
                f"Up to ${doubt:.4g} more may have been billed, for attempts that were in flight "
                "when a session ended or whose answers came too late."
            )
    elif content.get("usd"):
        lines.append(f"Spent ${content['usd']:.4g}, where the price is known.")
    for name, block in content.get("outcomes", {}).items():
        lines.append(f"By {name}: {block['ranking'] or 'nothing known'}.")
    lines += [f"Warning: {text}." for text in content.get("warnings", ())]
    lines += [f"Changed during the run: {text}." for text in content.get("changes", ())]
    lines.append(f"Stopped: {content['stopped_because'] or 'not finished'}.")
    lines.append(f"{content['estimand']}.")
    if content.get("scorer"):
        lines.append(f"Scored by {in_words(content['scorer'])}.")
    lines.append(content["signature"])
    return lines


def _outlook(content: Mapping[str, Any]) -> list[str]:
    """What would decide the open pairs, the cheapest first."""
    found = content.get("open_pairs", [])
    lines = []
    for pair in found[:MOST_PAIRS]:
        more = " and ".join(f"{n:,} of {m}" for m, n in pair["items"].items())
        cost = f" (${pair['cost']:.3g})" if content["cost_unit"] == "usd" else ""
        close = ", nearly all there are" if pair["all_items"] else ""
        lines.append(
            f"{pair['a']} over {pair['b']} ({_percent(pair['p'])}): about {more} more answers"
            f"{cost}{close} would decide."
        )
    if len(found) > MOST_PAIRS:
        lines.append(f"{len(found) - MOST_PAIRS} more pairs are open; --report shows them.")
    return lines


def _against_next(content: Mapping[str, Any], name: str, order: list[str]) -> str:
    if name not in order[:-1]:
        return ""
    return _sureness(content, name, order[order.index(name) + 1])


def _sureness(content: Mapping[str, Any], a: str, b: str) -> str:
    # Two models with full results are not compared by chance.
    found = (p["p"] for p in content["pairwise"] if p["a"] == a and p["b"] == b)
    p = next(found, None)
    return "" if p is None else _percent(p)


def _percent(p: float) -> str:
    # Never claim certainty that rounding made.
    return f"{min(max(100 * p, 0.1), 99.9):.1f}%"


def _matrix(content: Mapping[str, Any]) -> list[str]:
    order = content["order"]
    lines = ["", "How sure it is that the row is better than the column:"]
    width = max(8, *(len(n[:16]) for n in order)) + 1
    lines.append(" " * width + "".join(f"{n[:16]:>{width}}" for n in order[1:]))
    for i, a in enumerate(order[:-1]):
        cells = [
            f"{_sureness(content, a, b) if j > i else '':>{width}}"
            for j, b in enumerate(order)
            if j > 0
        ]
        lines.append(f"{a[:16]:<{width}}" + "".join(cells))
    return [*lines, ""]
