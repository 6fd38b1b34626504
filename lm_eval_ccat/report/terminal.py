"""A result on a terminal: one sentence, a table that fits the terminal, and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..content import RankingContent
from ..harness.scorers import in_words
from ..money import dollars, spent_in_words
from ..ranker.headline import held, question
from ..visible import visible_values
from ..wording import plural
from .tables import ModelCells, model_cells, outlook, parts, stands_beyond
from .trust import audited, samples
from .words import listed, one_look, probability

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Models of which every row is shown; of more the first, those asked and their neighbours.
MOST_ROWS = 24
_FIRST = 20
#: A matrix of more models than this is left to page and JSON.
MATRIX_MODELS = 6
#: Models that find room in the table of tasks; of more the JSON has all.
BOARD_MODELS = 8
#: Letters that a name keeps when the terminal is too narrow for it.
_NAME = 16


@dataclass(frozen=True)
class Column:
    """A column of the table: its title, its cells, and whether a narrow terminal keeps it."""

    title: str
    cell: Callable[[ModelCells], str]
    optional: int = 0  # the largest goes first
    right: bool = True


def print_result(console: Console, content: RankingContent) -> None:
    """Print a result as `lm_eval_ccat.live.result.Result` holds it."""
    from rich.text import Text

    content = visible_values(content, content["models"].keys())
    console.print(Text(content["headline"], style="bold"))
    rows = model_cells(content)
    console.print(Text(f"{content['metric']}, {question(content)}", "italic"))
    _print_models(console, content, rows)
    names = [row.name for row in rows]
    if content.get("outcomes") or content.get("further"):
        _print_table(console, *_outcomes(content))
    if content.get("board"):
        _print_table(console, *_board(content["board"], names))
    for line in notes(content):
        console.print(Text(line))
    console.print(Text(content["signature"]), soft_wrap=True)  # to be copied: in one piece


# -- the table of models ----------------------------------------------------------------------


def _columns(content: RankingContent, rows: Sequence[ModelCells]) -> list[Column]:
    """Return the columns to show beside the model's name."""
    paid = content["cost_unit"] == "usd"
    guessed = {
        name for name, one in content["models"].items() if one.get("tokens", {}).get("estimated")
    }
    columns = [
        Column("estimate", lambda r: r.estimate if r.seen else "-"),
        Column(
            f"{100 * content['confidence']:g}% interval",
            lambda r: f"{r.low} to {r.high}" if r.seen else "-",
            right=False,
        ),
    ]
    if any(r.best < r.worst for r in rows):
        columns += [Column("ranks", lambda r: r.ranks, 1), Column("best", lambda r: r.chance, 3)]
    columns.append(Column("items", lambda r: "known" if r.known else str(r.row["n_items"]), 2))
    if paid:
        columns.append(
            Column("cost", lambda r: dollars(r.row["cost"]) + "~" * (r.name in guessed), 4)
        )
    return [*columns, Column("vs next", lambda r: r.over_next, 5)]


def _print_models(console: Console, content: RankingContent, rows: Sequence[ModelCells]) -> None:
    """The table; where the terminal is too narrow columns go, and then the middle of names."""
    from rich.cells import cell_len
    from rich.text import Text

    shown = _shown(rows)
    columns = _columns(content, rows)
    widths = [
        max(map(cell_len, [c.title, *(c.cell(r) for r in shown if r is not None)])) for c in columns
    ]
    name_width = max((cell_len(r.name) for r in shown if r is not None), default=0)
    room = console.width - len(f"{len(rows)}=") - 5 - 3 * len(columns)
    while sum(widths) + min(name_width, _NAME) > room:
        least = max(columns, key=lambda c: c.optional)
        if not least.optional:
            break
        at = columns.index(least)
        room += 3
        del columns[at], widths[at]
    names = shortened([r.name for r in rows], max(8, room - sum(widths)))
    table = _new_table()
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("model", no_wrap=True)
    for column in columns:
        justify = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in shown:
        if row is None:
            table.add_row("", f"... {len(rows) - sum(r is not None for r in shown)} more")
            continue
        rank = f"{row.rank}{'=' * (row.tie is not None)}" if row.rank else "-"
        table.add_row(rank, Text(names[row.name]), *(c.cell(row) for c in columns))
    console.print(table)
    for name, short in names.items():
        if short != name:
            console.print(Text(f"{short} is {name}"), soft_wrap=True)


def _shown(rows: Sequence[ModelCells]) -> list[ModelCells | None]:
    """Return the rows to show, then None if others are left out."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    asked = [n for n, r in enumerate(rows) if not r.known]
    wanted = set(range(_FIRST))
    if len(asked) < len(rows):  # a leaderboard: the new ones and who stands beside them
        near = {n + step for n in asked[:_FIRST] for step in (-1, 0, 1)}
        wanted = {n for n in near if 0 <= n < len(rows)} | {0}
    return [*(rows[n] for n in sorted(wanted)), None]


def shortened(names: Sequence[str], width: int) -> dict[str, str]:
    """Each name in at most `width` letters; a longer one loses its middle, and no two are alike.

    Examples
    --------
    >>> list(shortened(["short", "a-model-of-7b", "a-model-of-8b"], 9).values())
    ['short', 'a-mo…f-7b', 'a-mo…f-8b']
    >>> list(shortened(["model-a-instruct", "model-b-instruct"], 9).values())
    ['1 …struct', '2 …struct']
    """
    half = width // 2
    short = {n: n if len(n) <= width else f"{n[: width - 1 - half]}…{n[-half:]}" for n in names}
    taken = list(short.values())
    for at, name in enumerate(names, start=1):
        if taken.count(short[name]) > 1:
            short[name] = f"{at} …{name[len(str(at)) + 2 - width :]}"
    return short


# -- tables of parts --------------------------------------------------------------------------


def _outcomes(content: RankingContent) -> tuple[str, Table]:
    """Every outcome's estimates beside each other, and the order by each of them."""
    from rich.text import Text

    outcomes = parts({**content, "tasks": {}})
    assert outcomes is not None
    table = _new_table()
    table.add_column("model", overflow="fold")
    for column in outcomes.columns:
        weight = "reported" if column.weight == "0" else f"weight {column.weight}"
        table.add_column(Text(f"{column.name}\n({weight})"), justify="right")
    for name, cells in outcomes.rows.items():
        texts = (
            f"{c.estimate} ± {c.error}" + (f" ({c.rank})" if c.rank else "") if c else "-"
            for c in cells
        )
        table.add_row(Text(name), *texts)
    return "Of the same answers: estimate ± standard error, rank", table


def _board(columns: Any, names: Sequence[str]) -> tuple[str, Table]:
    """The average, every group and every task: a row each, a column per model."""
    from rich.text import Text

    table = _new_table()
    table.add_column("", overflow="fold")
    shown = names[:BOARD_MODELS]
    for name in shown:
        table.add_column(Text(name), justify="right", overflow="fold")
    for column in columns:
        weight = f" ({100 * column['weight']:.3g}%)" if "weight" in column else ""
        cells = [_cell(column["models"][name]) for name in shown]
        # Groups stand between the average and the tasks.
        label = column["name"] if column["kind"] != "group" else f"group {column['name']}"
        table.add_row(Text(label + weight), *cells)
    return "Estimate ± standard error (items)", table


def _cell(one: Mapping[str, Any]) -> str:
    if one["too_few"]:
        return f"too few items ({one['items']})"
    items = f" ({one['items']})" if one["items"] else ""
    return f"{one['estimate']:.4g} ± {one['standard_error']:.2g}{items}"


def _new_table() -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False)


def _print_table(console: Console, title: str, table: Table) -> None:
    from rich.text import Text

    console.print(Text(title, "italic"))
    console.print(table)


# -- notes ------------------------------------------------------------------------------------


def notes(content: RankingContent) -> list[str]:
    """Return the notes below the table: open pairs, warnings, costs and sources."""
    return [
        *_open(content),
        *(f"Warning: {text}." for text in content.get("warnings", ())),
        *_trust(content),
        *(
            f"By {name}: {block['ranking'] or 'nothing known'}."
            for name, block in content.get("outcomes", {}).items()
        ),
        *_matrix(content),
        *spent_in_words(content),
        *(f"Changed during the run: {text}." for text in content.get("changes", ())),
        f"Stopped: {content['stopped_because'] or 'not finished'}.",
        f"{content['estimand']}. {held(content.get('looks'), content['confidence'])}".strip(),
        *([f"Scored by {in_words(scorer)}."] if (scorer := content.get("scorer")) else ()),
    ]


def _open(content: RankingContent) -> Iterator[str]:
    """Which pairs are open, in one line each for the whole and for the cheapest."""
    tied = [group for group in content["ties"] if len(group) < len(content["order"])]
    for group in tied[:2]:
        yield f"Not separated: {listed(group)}."
    apart = content["separated_within_ties"]
    if len(apart) == 1:
        [(a, b)] = apart
        yield f"{a} and {b} are separated from each other, though not from those between."
    plan = outlook(content, content["cost_unit"])
    if plan is not None:
        first, n = plan.pairs[0], len(plan.pairs)
        more = " and ".join(f"{n:,} of {m}" for m, n in first["items"].items())
        numbers = [*first["items"].values()]
        if len(set(numbers)) == 1 < len(numbers):
            more = f"{numbers[0]:,} of each"
        close = ", nearly all that remain," if first["all_items"] else ""
        at, price = "", ""
        if plan.cost is not None:
            at, price = f" ({dollars(first['cost'])})", f" ({dollars(plan.cost)})"
        yield (
            f"{first['a']} over {first['b']} ({probability(first['p'])}): about {more} more "
            f"answers{at}{close} would decide."
        )
        if n > 1:
            yield (
                f"About {plan.answers:,} more answers{price} would decide all {n} open "
                "neighbours; the page and --json list each pair."
            )
    if why := one_look(content):
        yield why
    for a, b in content.get("withdrawn", ())[:2]:
        yield f"{a} over {b} was decided earlier and is open again."
    if standing := stands_beyond(content):
        yield standing


def _trust(content: RankingContent) -> Iterator[str]:
    """How far to trust each model's figures."""
    for name, block in content["models"].items():
        if place := block.get("place"):
            yield f"{name}: {place['in_words']}."
        yield from audited(name, block.get("audit"))
        yield from (f"{name} {finding}." for finding in block.get("findings", ()))
        if block["set_aside"]:
            yield f"{name} was set aside: {block['set_aside']}"
        elif block["failed"]:
            first = block["failed"][0]
            yield (
                f"{name} failed on {plural(len(block['failed']), 'document')}; they count as not "
                f"seen, not as 0. The first: {first['doc_id']}: {first['reason']}"
            )
        warned = any(f" answers of {name} are empty" in w for w in content.get("warnings", ()))
        if block.get("empty_outputs") and not warned:
            yield (
                f"{name} gave {plural(block['empty_outputs'], 'empty answer')}, scored as they are."
            )
    yield from samples(content)


def _matrix(content: RankingContent) -> Iterator[str]:
    order = content["order"]
    if not 2 < len(order) <= MATRIX_MODELS or not content["ties"]:
        return  # of decided neighbours the table says enough
    p = {(pair["a"], pair["b"]): probability(pair["p"]) for pair in content["pairwise"]}
    yield "How sure it is that the row is better than the column:"
    names = shortened(order, 11)
    width = max(6, *map(len, names.values())) + 1
    yield " " * width + "".join(f"{names[n]:>{width}}" for n in order[1:])
    for i, a in enumerate(order[:-1]):
        cells = [p.get((a, b), "") if j > i else "" for j, b in enumerate(order) if j]
        yield f"{names[a]:<{width}}" + "".join(f"{cell:>{width}}" for cell in cells)
