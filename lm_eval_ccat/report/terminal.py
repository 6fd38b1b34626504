"""Terminal output: a result (headline, table and notes), the progress of a run, a forecast."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..content import (
    ColumnContent,
    ForecastContent,
    LoadsContent,
    ModelContent,
    ModelForecastContent,
    RankingContent,
    WayContent,
)
from ..harness.scorers import in_words
from ..live.identity import header_of_plan
from ..live.line import GROWTH
from ..live.result import Observer, result_of
from ..money import ASSUMED, BILLED, dollars, in_unit, no_money, spent_in_words
from ..ranker.columns import (
    TERMINAL,
    Column,
    ModelCells,
    columns_of,
    model_cells,
    paid,
    what_is_asked,
)
from ..ranker.headline import intervals_hold
from ..ranker.verdicts import EQUIVALENT, WORDS
from ..shown import (
    exact_percent,
    first_of,
    plural,
    some,
    visible,
    visible_name,
    visible_values,
    whole_percent,
    with_escapes,
)
from .tables import (
    Outlook,
    beyond_these_items,
    one_look,
    outlook,
    parts,
)  # fmt: skip
from .trust import remarks_on_models

if TYPE_CHECKING:
    from ..live.plan import Plan
    from ..runs.book import Book

#: Largest number of models that are all shown.
MOST_ROWS = 24
#: Of more models, so many of the first are shown, or so many that were asked, with neighbours.
_FIRST = 20
#: Largest matrix of pairs to print; the page and JSON have larger ones.
MATRIX_MODELS = 6
#: Largest number of models in the table of tasks; the JSON has all.
BOARD_MODELS = 8
#: Blanks between two columns.
_GAP = 2
#: Largest number of models in a line about a run.
MOST_IN_LINE = 8
#: Heading of the column of names.
_NAMES_TITLE = "model"
#: Columns to keep of a name in a line, and in a table if the terminal is too narrow.
_NAME_WIDTH = 24
#: Seconds that loading a model is said to take where it was not measured.
LOAD_SECONDS = 30.0
#: Least seconds between two drawings of the table of a run, and between two lines about it if no
#: table can be drawn.
TABLE_SECONDS, PLAIN_SECONDS = 0.25, 10.0


def print_result(console: Console, content: RankingContent) -> None:
    """Print a result as `lm_eval_ccat.live.result.Result` holds it."""
    content = _visible(content)
    console.print(Text(content["headline"], style="bold"))
    table, names = models_table(content, console.width)
    console.print(table)
    for name, short in names.items():
        if short != name:
            console.print(Text(f"{short} is {name}"), soft_wrap=True)
    if content.get("outcomes") or content.get("further"):
        console.print(Text("From the same answers: estimate ± standard error (rank)", "italic"))
        console.print(_outcomes_table(content, list(names)))
    if content.get("board"):
        console.print(Text(f"Estimate ± standard error ({what_is_asked(content)})", "italic"))
        console.print(_tasks_table(content["board"], list(names)))
    for line in notes(content):
        console.print(Text(line))
    console.print(Text(content["signature"]), soft_wrap=True)  # to be copied: in one piece


def _visible(content: RankingContent) -> RankingContent:
    """Return a result with all text visible.

    Pairs hold no text but names, so only these are looked through: a thousand models make half a
    million pairs.
    """
    name_of, pairs = {name: visible_name(name) for name in content["models"]}, content["pairwise"]
    if any(name != shown_name for name, shown_name in name_of.items()):
        pairs = [{**pair, "a": name_of[pair["a"]], "b": name_of[pair["b"]]} for pair in pairs]
    without_pairs = visible_values({**content, "pairwise": []}, content["models"].keys())
    return cast(RankingContent, {**without_pairs, "pairwise": pairs})


# -- the table of models ----------------------------------------------------------------------


def models_table(
    content: RankingContent,
    width: int,
    max_rows: int = MOST_ROWS,
    waiting: Mapping[str, int] | None = None,
) -> tuple[Table, dict[str, str]]:
    """Return the models of a ranking in a table that fits into the terminal.

    If it would be too wide, columns are left out (`_fitted`), and then the middle of names, of
    which at least 8 letters stay.

    Parameters
    ----------
    content : mapping
        The content of ``result.json``.
    width : int
        Width of the terminal.
    max_rows : int, optional
        Of more models than this, `_shown` chooses those that are shown.
    waiting : mapping of str to int, optional
        For a running ranking, the number of unanswered items of each model. Known models, which
        are never asked, are then left out.

    Returns
    -------
    table : rich.table.Table
    names : dict of str to str
        The text that the table has in place of each model's name, whole or shortened. Keys are the
        models of the table, best first.
    """
    models = [
        model for model in model_cells(content, waiting) if waiting is None or not model.known
    ]
    models_shown, n_hidden = _shown(models, max_rows)
    hidden = f"... {n_hidden} more" if n_hidden else ""
    ranks = [_rank_text(model) for model in models_shown]
    columns = [
        _ShownColumn(
            column, column.heading(content), [column.cell(model) for model in models_shown]
        )
        for column in columns_of(TERMINAL, content, models)
    ]
    # The column of ranks, the gap after it and an edge at each side take the rest.
    left_width = width - max(map(cell_len, ranks), default=0) - _GAP - 2
    # Columns leave the names as much as the longest one takes, but `_NAME_WIDTH` at most.
    texts_of_names = [_NAMES_TITLE, hidden, *(model.name for model in models_shown)]
    columns = _fitted(columns, left_width - min(max(map(cell_len, texts_of_names)), _NAME_WIDTH))
    left_width -= sum(column.width for column in columns)
    # Among all models, so that a name stays the same when other models are shown.
    short_name = shortened([model.name for model in models], max(8, left_width))
    names = {model.name: short_name[model.name] for model in models_shown}
    return _table_of(ranks, list(names.values()), columns, hidden), names


def _table_of(
    ranks: Sequence[str], names: Sequence[str], columns: Sequence[_ShownColumn], hidden: str
) -> Table:
    """Return a table with a row for each model; `hidden` says how many more there are."""
    table = _new_table()
    table.add_column("", justify="right", no_wrap=True)
    table.add_column(_NAMES_TITLE, no_wrap=True)
    for entry in columns:
        justify: JustifyMethod = "left" if entry.column.left_aligned else "right"
        table.add_column(entry.title, justify=justify, no_wrap=True)
    for n, (rank, name) in enumerate(zip(ranks, names)):
        table.add_row(rank, Text(name), *(entry.cells[n] for entry in columns))
    if hidden:
        table.add_row("", hidden)
    return table


class _ShownColumn(NamedTuple):
    """A column with its heading and the text of each model that is shown."""

    column: Column
    title: str
    cells: list[str]

    @property
    def width(self) -> int:
        """Letters that it takes, with the gap before it."""
        return _GAP + max(map(cell_len, [self.title, *self.cells]))


def _rank_text(model: ModelCells) -> str:
    """Return a model's rank, with = where a neighbour is not decided against it."""
    if not model.rank:
        return "-"
    return f"{model.rank}=" if model.tie is not None else str(model.rank)


def _fitted(columns: Sequence[_ShownColumn], width: int) -> list[_ShownColumn]:
    """Leave out columns until the others fit, that of the largest `Column.drop_order` first."""
    fitting = list(columns)
    while sum(column.width for column in fitting) > width:
        dropped = max(fitting, key=lambda entry: entry.column.drop_order)
        # What remains says who is how good; names are shortened instead.
        if not dropped.column.drop_order:
            break
        fitting.remove(dropped)
    return fitting


def _shown(rows: Sequence[ModelCells], max_rows: int) -> tuple[list[ModelCells], int]:
    """Return the rows that are shown, and the number of the others.

    All rows are shown if they are few; else the first ones, or, where some models have full
    results, the best model and those that were asked with their neighbours.
    """
    if len(rows) <= max_rows:
        return list(rows), 0
    n_first = min(_FIRST, max_rows)
    asked = [n for n, row in enumerate(rows) if not row.known]
    positions = set(range(n_first))
    # Of a leaderboard the new models and their neighbours are shown, and the best of all.
    if len(asked) < len(rows):
        neighbours = {n + step for n in asked[:n_first] for step in (-1, 0, 1)}
        positions = {n for n in neighbours if 0 <= n < len(rows)} | {0}
    return [rows[n] for n in sorted(positions)], len(rows) - len(positions)


def shortened(names: Sequence[str], width: int) -> dict[str, str]:
    """Shorten names to at most `width` columns by cutting out the middle; keep them distinct.

    Examples
    --------
    >>> list(shortened(["short", "a-model-of-7b", "a-model-of-8b"], 9).values())
    ['short', 'a-mo…f-7b', 'a-mo…f-8b']
    >>> list(shortened(["model-a-instruct", "model-b-instruct"], 9).values())
    ['1 …struct', '2 …struct']
    """
    half = width // 2
    short = {
        name: name
        if cell_len(name) <= width
        else f"{_beginning(name, width - 1 - half)}…{_end(name, half)}"
        for name in names
    }
    taken = list(short.values())
    for number, name in enumerate(names, start=1):
        # Models of one family often differ in the middle of their names.
        if taken.count(short[name]) > 1:
            short[name] = f"{number} …{_end(name, width - 2 - len(str(number)))}"
    return short


def _beginning(name: str, width: int) -> str:
    """Return as much of the beginning of a name as fits into so many columns of a terminal."""
    return next(text for n in range(len(name), -1, -1) if cell_len(text := name[:n]) <= width)


def _end(name: str, width: int) -> str:
    """Return as much of the end of a name as fits into so many columns of a terminal."""
    return next(text for n in range(len(name) + 1) if cell_len(text := name[n:]) <= width)


# -- tables of parts --------------------------------------------------------------------------


def _outcomes_table(content: RankingContent, names: Sequence[str]) -> Table:
    """Return a table of every outcome's estimates, with the rank by each.

    It has those of the models named that were asked, and the number of the other models asked.
    """
    columns, table = parts({**content, "tasks": {}}), _new_table()
    table.add_column("model", overflow="fold")
    for column in columns:
        weight = "reported" if column.weight == "0" else f"weight {column.weight}"
        table.add_column(Text(f"{column.name}\n({weight})"), justify="right")
    asked = {name for column in columns for name in column.cells}
    models_shown = [name for name in names if name in asked]
    for name in models_shown:
        cells = (column.cells.get(name) for column in columns)
        texts = (
            f"{cell.estimate} ± {cell.error}" + (f" ({cell.rank})" if cell.rank else "")
            if cell
            else "-"
            for cell in cells
        )
        table.add_row(Text(name), *texts)
    if n_hidden := len(asked) - len(models_shown):
        table.add_row(f"... {n_hidden} more")
    return table


def _tasks_table(columns: Sequence[ColumnContent], names: Sequence[str]) -> Table:
    """Return a table with rows for the average, groups and tasks, and a column per model."""
    table, models_shown = _new_table(), names[:BOARD_MODELS]
    table.add_column("", overflow="fold")
    for name in models_shown:
        table.add_column(Text(name), justify="right", overflow="fold")
    for column in columns:
        weight = f" ({100 * column['weight']:.3g}%)" if "weight" in column else ""
        # Groups stand between the average and the tasks.
        label = column["name"] if column["kind"] != "group" else f"group {column['name']}"
        cells = []
        for figures in (column["models"].get(name) for name in models_shown):
            # A model with full results takes part in the average alone.
            if figures is None:
                cells.append("-")
            elif figures["too_few"]:
                cells.append(f"too few items ({figures['items']})")
            else:
                items = f" ({figures['items']})" if figures["items"] else ""
                cells.append(f"{figures['estimate']:.4g} ± {figures['standard_error']:.2g}{items}")
        table.add_row(Text(label + weight), *cells)
    return table


def _new_table() -> Table:
    """Return an empty table in the style of all tables on the terminal."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))


# -- notes ------------------------------------------------------------------------------------


def notes(content: RankingContent) -> list[str]:
    """Return the notes below the table: open pairs, warnings, costs and sources."""
    warnings = content.get("warnings", ())
    looks = intervals_hold(content.get("looks"), content["confidence"])
    return [
        *_open_pairs(content),
        *(f"Warning: {text}." for text in warnings),
        *(text for _, text in remarks_on_models(content)),
        *(
            f"By {name}: {block['ranking'] or 'nothing known'}."
            for name, block in content.get("outcomes", {}).items()
        ),
        *_pair_matrix(content),
        *spent_in_words(content),
        *(f"Changed during the run: {text}." for text in content.get("changes", ())),
        f"Stopped: {content['stopped_because'] or 'not finished'}.",
        f"{content['estimand']}. {looks}".strip(),
        *([f"Scored by {in_words(scorer)}."] if (scorer := content.get("scorer")) else ()),
    ]


def _open_pairs(content: RankingContent) -> Iterator[str]:
    """Yield lines on what is open: ties, the cheapest pair to decide, and all pairs together."""
    yield from _open_ties(content)
    if needs := outlook(content, content["cost_unit"]):
        yield from _what_would_decide(needs)
    if why := one_look(content):
        yield why
    for a, b in content.get("withdrawn", ())[:2]:
        yield f"{a} over {b} was decided earlier and is open again."
    if sentence := beyond_these_items(content):
        yield sentence


def _open_ties(content: RankingContent) -> Iterator[str]:
    """Yield a line for each of the first groups that are tied, and for a pair apart within them."""
    # The place of a newcomer names all models from which it is not separated, so that its group
    # is not named again.
    placed = {model for model, block in content["models"].items() if block.get("place")}
    tied = [
        group
        for group in content["ties"]
        if len(group) < len(content["order"]) and not placed & {*group}
    ]
    equivalent_pairs = {
        (pair["a"], pair["b"])
        for pair in content["pairwise"]
        if pair["decision"] == WORDS[EQUIVALENT]
    }
    for group in tied[:2]:
        equivalent = [pair in equivalent_pairs for pair in combinations(group, 2)]
        label = "Equivalent or not separated" if any(equivalent) else "Not separated"
        label = "Equivalent" if all(equivalent) else label
        yield f"{label}: {first_of(group, 4)}."
    apart = content["separated_within_ties"]
    # Several such pairs would fill the screen; the page lists them.
    if len(apart) == 1 and not placed:
        [(a, b)] = apart
        yield f"{a} and {b} are separated from each other, but not from the models between them."


def _what_would_decide(needs: Outlook) -> Iterator[str]:
    """Yield what the cheapest open pair still takes, and what all open neighbours take."""
    pair, n_pairs = needs.pairs[0], len(needs.pairs)
    pair_price, price = "", ""
    if needs.cost is not None:
        pair_price, price = f" ({dollars(pair['cost'])})", f" ({dollars(needs.cost)})"
    names = f"{pair['a']} over {pair['b']} ({whole_percent(pair['p'])}%)"
    # To name a number of answers would invite to pay for them in vain.
    if pair.get("out_of_reach"):
        yield f"{names}: not even all answers that remain would decide."
    else:
        close = ", nearly all that remain," if pair["all_items"] else ""
        yield f"{names}: about {_more_answers(pair['items'])}{pair_price}{close} may decide."
    if n_pairs > 1 and not needs.out_of_reach:
        yield (
            f"About {needs.answers:,} more answers{price} would decide all {n_pairs} open "
            "neighbours; the page and --json list each pair."
        )


def _more_answers(answers_needed: Mapping[str, int]) -> str:
    """Say how many more answers each model needs.

    Examples
    --------
    >>> _more_answers({"a": 7, "b": 7}), _more_answers({"a": 7, "b": 1})
    ('7 more answers of each', '7 more answers of a and 1 of b')
    >>> _more_answers({"a": 0, "b": 7})
    '7 more answers of b'
    """
    # A model that has every item needs none.
    asked = {model: number for model, number in answers_needed.items() if number}
    (model, number), *further = (asked or answers_needed).items()
    # Models that need the same number share a clause.
    if further and {n_answers for _, n_answers in further} == {number}:
        return f"{plural(number, 'more answer')} of each"
    texts = "".join(f" and {n_answers:,} of {name}" for name, n_answers in further)
    return f"{plural(number, 'more answer')} of {model}{texts}"


def _pair_matrix(content: RankingContent) -> Iterator[str]:
    """Yield the probabilities of all pairs of a few models, as a triangle."""
    order = content["order"]
    # Of decided neighbours, and of one pair, the table says enough.
    if not 2 < len(order) <= MATRIX_MODELS or not content["ties"]:
        return
    chances = {
        (pair["a"], pair["b"]): f"{whole_percent(pair['p'])}%" for pair in content["pairwise"]
    }
    yield "Probability that the row is better than the column:"
    names = shortened(order, 11)
    width = max(6, *map(len, names.values())) + 1
    yield " " * width + "".join(f"{names[n]:>{width}}" for n in order[1:])
    for i, a in enumerate(order[:-1]):
        cells = [chances.get((a, b), "") if j > i else "" for j, b in enumerate(order) if j]
        yield f"{names[a]:<{width}}" + "".join(f"{cell:>{width}}" for cell in cells)


# -- while it runs, and before ----------------------------------------------------------------


class Progress(Observer):
    """Shows the progress of a run; the thread that waits for the run calls `tick`.

    Parameters
    ----------
    quiet : bool
        Print plain lines instead of the table, which is drawn only on a terminal.

    Attributes
    ----------
    plain : bool
        Whether lines are printed, as there is no terminal to draw a table on.
    warned : list of str
        The warnings that were printed.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(file=with_escapes(sys.stderr), no_color=quiet or None)
        self.plain = quiet or not self.console.is_terminal
        self._live: Any = None
        self.warned: list[str] = []
        self._next_drawing = 0.0

    def warn(self, message: str) -> None:
        """Print a warning above the table, and each warning only once."""
        # A server may say the same of every request.
        if message in self.warned:
            return
        self.warned.append(message)
        self.note(f"warning: {message}")

    def note(self, message: str) -> None:
        """Print a line above the table."""
        text = visible(message)
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def begin(self, plan: Plan, book: Book) -> None:
        """Start drawing."""
        self.plan, self.book, self._header = plan, book, header_of_plan(plan)
        if self.plain:
            # A log need not begin with a line about nothing.
            self._next_drawing = time.monotonic() + PLAIN_SECONDS
        else:
            self._live = Live(
                self.table(), console=self.console, auto_refresh=False, transient=True
            )
            self._live.start(refresh=True)

    def end(self) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def tick(self) -> None:
        """Draw the current state now and then, for at most a tenth of the time."""
        moment = time.monotonic()
        if moment < self._next_drawing:
            return
        if self._live is not None:
            self._live.update(self.table(), refresh=True)
        else:
            self.console.print(self.line(), highlight=False, markup=False, soft_wrap=True)
        # Many models take longer to compare; drawing must not slow the run down.
        pause = PLAIN_SECONDS if self.plain else TABLE_SECONDS
        self._next_drawing = moment + max(pause, 10 * (time.monotonic() - moment))

    def _current(self) -> tuple[RankingContent, dict[str, int]]:
        """Return the result so far, and the number of unanswered items of each model."""
        waiting = Counter(visible_name(ask.model) for ask in self.book.unanswered)
        ranking = self.book.ranker.result()
        return result_of(ranking, self._header, None, self.book, None).content, waiting

    def line(self) -> str:
        """Return one log line about the current state: the models asked, with ranks and items."""
        content, waiting = self._current()
        tested = [model for model in model_cells(content) if not model.known]
        names = shortened([model.name for model in tested], _NAME_WIDTH)
        unit = content["cost_unit"]
        texts = [
            f"{visible_name(names[model.name])} {(model.has_results and model.ranks) or '-'} "
            f"({model.row['n_items']}{_cost(model.row, unit)})"
            for model in tested
        ]
        items = f"{content['items_administered']} {what_is_asked(content)}"
        unanswered = [f"{sum(waiting.values())} unanswered"] if waiting else []
        held_up = filter(None, [self.book.held_up()])
        # Before the first answer nothing is known of the models.
        ranks = [first_of(texts, MOST_IN_LINE)] if content["items_administered"] else []
        return "; ".join([*ranks, items, *self._spending(), *unanswered, *held_up])

    def _spending(self) -> list[str]:
        """Return what money and time the run took, and may take."""
        plan, spent, elapsed = self.plan, self.book.ranker.spent, self.book.elapsed()
        texts, left, currency = [], "", plan.charges.currency
        # All that is billed counts: an answer may be paid for and lost.
        if currency == "usd":
            money = self.book.tally.money_of_all or no_money()
            spent = money[BILLED] + money[ASSUMED]
            texts.append(
                dollars(spent)
                + (f" of {dollars(plan.charges.budget)}" if plan.charges.budget else "")
            )
        elif plan.charges.budget:
            texts.append(f"budget {spent:,.0f} of {in_unit(plan.charges.budget, currency)}")
        if plan.seconds is not None:
            return [*texts, f"{max(0.0, plan.seconds - elapsed):.0f} s left"]
        # The first seconds say nothing about the speed of a run.
        if plan.charges.budget and spent > 0 and elapsed >= 2:
            left = f", at most {elapsed * max(0.0, plan.charges.budget - spent) / spent:.0f} s left"
        return [*texts, f"{elapsed:.0f} s{left}"]

    def table(self) -> Table:
        """Return the table of the current result, no taller than the terminal."""
        content, waiting = self._current()
        # The table needs no other pairs, of which a thousand models have half a million.
        neighbours = set(pairwise(content["order"]))
        pairs = [pair for pair in content["pairwise"] if (pair["a"], pair["b"]) in neighbours]
        content = _visible({**content, "pairwise": pairs})
        size = self.console.size
        table, _ = models_table(content, size.width, max(3, size.height - 8), waiting)
        # With known models the line would mostly tell their order, which is not new. The rows tell
        # the place of the others.
        known = any(block["known"] for block in content["models"].values())
        if not known and cell_len(content["ranking"]) <= size.width:
            table.title, table.title_justify = Text(content["ranking"]), "left"
        table.caption, table.caption_justify = "; ".join(self._spending()), "left"
        return table


def forecast_lines(content: ForecastContent) -> list[str]:
    """Format what `lm_eval_ccat.live.ranking_run.dry_run` returns as lines of text."""
    tasks, hashes = content["task"].split("+"), (content["bank"] or "").split("+")
    bank = f"bank {some(hashes, 2)}." if content["bank"] else "no bank: random documents."
    asked = "items" if content["repeats"] == 1 else "answers"
    tokens = content["budget"].get("tokens")
    limit = f", and at most {in_unit(tokens, 'tokens')}." if tokens else "."
    lines = [
        f"Task {some(tasks, 2)}: {content['documents']} documents, metric {content['metric']}, "
        f"{bank}",
        *_forecast_table(content, asked),
        *_rehearsal_lines(content),
        f"Together {_items(content)} {asked}, {_range(content['least_cost'], content['most_cost'])}"
        f"{limit}",
        *_power_lines(content),
        *_cost_notes(content),
    ]
    # Any of these lines may have the mark of an estimated amount.
    if any("~$" in line for line in lines):
        lines.append(
            "~ estimated: prices by token from the lengths of prompts and references, by the hour "
            "at a second an answer."
        )
    return [*lines, *_time_notes(content), "Nothing was asked and no model was loaded."]


def _forecast_table(content: ForecastContent, asked: str) -> Iterator[str]:
    """Yield a heading, and a line on what each model is expected to take and to cost.

    Parameters
    ----------
    content : mapping
        The forecast.
    asked : {"items", "answers"}
        What its counts are of: answers where each item is asked repeatedly. Without its last
        letter it heads the column of costs of a single one.
    """
    head = f"{asked:>12} {f'per {asked[:-1]}':>12} {'cost':>22} {'full run':>12}"
    yield f"{_NAMES_TITLE:<{_NAME_WIDTH}} {head}"
    names = shortened(list(content["models"]), _NAME_WIDTH)
    for name, model in content["models"].items():
        mark = "~" if model["cost_estimated"] else ""
        yield (
            f"{names[name]:<{_NAME_WIDTH}} {_items(model):>12} "
            f"{_usd(model['cost_per_item'], mark):>12} "
            f"{_range(model['least_cost'], model['most_cost'], mark):>22} "
            f"{_usd(model['full_evaluation_cost'], mark):>12}"
        )


def _cost_notes(content: ForecastContent) -> Iterator[str]:
    """Yield remarks on costs: missing prices, possible overspending, and the judge's part."""
    unpriced = [name for name, model in content["models"].items() if not model["price_known"]]
    if unpriced:
        yield (
            f"Costs of {some(unpriced, 2)} are unknown, because no price is stated: `price:` in "
            "the run's configuration file, --price of `rank`."
        )
    if content["overspend_at_most"]:
        over = _usd(content["overspend_at_most"], "~")
        yield f"Requests in flight at the end may exceed the budget, by at most {over}."
    if content["judge_cost_per_item"]:
        judge = _usd(content["judge_cost_per_item"])
        yield f"Every item includes {judge} for the judge."


def _time_notes(content: ForecastContent) -> Iterator[str]:
    """Say how long a run takes at most, what is in flight at its end, and how often it loads."""
    seconds = [model["most_seconds_at_1s"] for model in content["models"].values()]
    if "seconds" in content["budget"]:
        yield f"The run ends after at most {content['budget']['seconds']:g} s."
    # With `ahead: 1` each answer is waited for before the next is asked.
    longest = sum(seconds) if content["one_at_a_time"] else max(seconds)
    why = "" if content["one_at_a_time"] else ", as the models work at the same time"
    yield f"Time: at most {longest:.0f} s for each second that an answer takes{why}."
    if content["ahead"] and len(seconds) > 1:
        yield (
            f"Answers in flight at the deciding one are paid too: at most {content['ahead']} of "
            f"each model, and {GROWTH:.0%} of its answers until then."
        )
    if content["loads"]:
        yield _loads_in_words(content["loads"])


def _rehearsal_lines(content: ForecastContent) -> Iterator[str]:
    """Say what a ranking is expected to take, as rankings played beforehand did."""
    if (rehearsal := content["rehearsal"]) is None:
        return
    full_runs = content["documents"] * content["repeats"] * len(content["models"])
    answers, cost = rehearsal["answers"], rehearsal["cost"]
    costs = "" if cost is None else f", {_usd(cost['expected'], '~')}"
    costs_range = "" if cost is None else f", {_range(cost['low'], cost['high'], '~')}"
    low, high = (f"{answers[end]:,.0f}" for end in ("low", "high"))
    yield (
        f"Expected: asked {answers['expected']:,.0f}, used {rehearsal['used']:,.0f} of "
        f"{full_runs:,}{costs}. Of {rehearsal['rankings']} rankings of models like the bank's, "
        f"8 in 10 took {low if low == high else f'{low} to {high}'} answers{costs_range}; "
        f"{rehearsal['decided']:.0%} met the goal (every pair decided, or `stop:`)."
    )
    # Readers take the expected number for a quote.
    if answers["high"] > 2.0 * answers["low"]:
        yield (
            "It depends on how far apart the models are, which nobody knows before they are asked: "
            "a run may well take less than half of what is expected, or more than twice as much."
        )


def _power_lines(content: ForecastContent) -> Iterator[str]:
    """Say what items decide, and what it takes to decide a difference."""
    smallest, metric = content["smallest_gap_by_items"], content["metric"]
    # Nothing is known yet of how far repeats of one item scatter.
    if not smallest:
        yield "How many answers decide a difference depends on the noise between repeats, unknown."
        return
    # The ways to choose items, by the keys of the content.
    words_of_way = {"random": "random items", "bank": "with the bank", "full": "full runs"}
    heads = [words_of_way.get(way, way) for way in next(iter(smallest.values()))]
    chance, confidence = f"{content['chance']:.0%}", exact_percent(content["confidence"])
    confidence += " for all pairs together" if content["familywise"] else ""
    decided = f"decided in {chance} of rankings, at {confidence}"
    yield f"Smallest difference in {metric} that is {decided}:"
    yield f"  {'items of each':>14} " + "".join(f"{head:>16}" for head in heads)
    for n, gaps in smallest.items():
        yield f"  {n:>14,} " + "".join(f"{gap:>16.3g}" for gap in gaps.values())
    yield "What a difference takes, with `max_items:` so many items of each:"
    head = f"{'items of each':>14}{'tokens':>10}{'cost':>12}{'minutes':>9}"
    yield f"  {'difference':>14} {'':>16}{head}"
    for gap, by_way in content["by_gap"].items():
        # Even all items leave the noise of a single draw.
        if not by_way:
            yield f"  {gap:>14} one sampled answer to every item does not decide it: set `repeats`"
        for way, needs in by_way.items():
            tokens = needs["input_tokens"] + needs["output_tokens"]
            yield (
                f"  {gap:>14} {words_of_way.get(way, way):>16}{needs['items_per_model']:>14,}"
                f"{_in_short(tokens):>10}{_usd(needs['usd'], '~'):>12}"
                f"{_two_digits(needs['minutes_at_1s']):>9}"
                + ("  over the budget" if _over_budget(needs, content["budget"]) else "")
            )
    yield "Tokens by the lengths of prompts and references; minutes at a second an answer."


def _over_budget(needs: WayContent, budget: Mapping[str, float]) -> bool:
    """Whether what it takes to decide a difference exceeds the budget."""
    amounts = {
        "items": needs["answers"], "usd": needs["usd"],
        "tokens": needs["input_tokens"] + needs["output_tokens"],
    }  # fmt: skip
    return any((amounts.get(unit) or 0.0) > limit for unit, limit in budget.items())


def _two_digits(value: float) -> str:
    """Return a number to two digits, and from ten on as a whole one.

    Examples
    --------
    >>> _two_digits(0.333), _two_digits(9.96), _two_digits(204.7)
    ('0.33', '10', '205')
    """
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def _in_short(count: float) -> str:
    """Return a count with a unit.

    Examples
    --------
    >>> _in_short(940), _in_short(25_300), _in_short(99_600), _in_short(1_230_000)
    ('940', '25k', '100k', '1.2M')
    >>> _in_short(999_600)
    '1M'
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        # What would be written as 1,000 of the smaller unit is one of this.
        if count >= 0.9995 * size:
            return f"{_two_digits(count / size)}{unit}"
    return f"{count:.0f}"


def _loads_in_words(loads: LoadsContent) -> str:
    """Say how often local weights are loaded, and how long that takes as a rule."""
    low, high = (f"{n * LOAD_SECONDS / 60.0:.2g}" for n in (loads["least"], loads["most"]))
    line = (
        f"Local weights take turns: {loads['least']} to {loads['most']} loads, {low} to "
        f"{high} minutes at half a minute each."
    )
    if limit := loads["default_max_items"]:
        return f"{line} Each answers at most {limit} documents unless max_items says otherwise."
    return line


def _items(block: ForecastContent | ModelForecastContent) -> str:
    """Write the range of items that a forecast expects, or their number."""
    fewest, largest = block["least_items"], block["most_items"]
    return f"{fewest} to {largest}" if fewest != largest else str(largest)


def _cost(row: ModelContent, unit: str) -> str:
    """Return what a model has cost so far, after a comma; nothing where items are counted."""
    if unit == "items":
        return ""
    return f", {in_unit(paid(row) if unit == 'usd' else row['cost'], unit)}"


def _usd(amount: float | None, mark: str = "") -> str:
    """Write an amount in dollars, after a mark if it is estimated."""
    return "unknown" if amount is None else mark + dollars(amount)


def _range(low: float | None, high: float | None, mark: str = "") -> str:
    """Write a range of amounts in dollars; one that is two times the same text as that text."""
    if low is None or high is None:
        return "cost unknown"
    ends = _usd(low, mark), _usd(max(low, high))
    return ends[0] if ends[0].removeprefix(mark) == ends[1] else " to ".join(ends)
