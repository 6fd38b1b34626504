"""How results show themselves in Python: data frames, Markdown, notebooks, a short `repr`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from .errors import UsageError
from .visible import visible_line

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Grid:
    """A table of a result.

    Attributes
    ----------
    title : str
        The result in one line.
    columns : tuple of str
    rows : sequence of sequence
        Numbers unrounded; None where there is nothing to tell.
    notes : tuple of str
        What a reader of the numbers should know.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    notes: tuple[str, ...] = ()


class Shown:
    """Gives a result its tables; a class says in `_grid` what they hold."""

    def _grid(self) -> Grid:
        raise TypeError(f"{type(self).__name__} has no table")  # pragma: no cover

    def to_dataframe(self) -> pandas.DataFrame:
        """The table as a pandas data frame, numbers unrounded.

        Raises
        ------
        UsageError
            Pandas is not installed.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> list(ranking.to_dataframe().model)
        ['a', 'b']
        """
        try:
            import pandas
        except ImportError:
            raise UsageError("data frames need pandas: pip install pandas") from None
        grid = self._grid()
        columns = list(grid.columns)
        return pandas.DataFrame([dict(zip(columns, row)) for row in grid.rows], columns=columns)

    def to_markdown(self) -> str:
        """The table in Markdown, its one-line result above and its notes below.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> print(ranking.to_markdown().splitlines()[0])
        **{a, b}**
        """
        grid = self._grid()
        numeric = [_numeric(grid, n) for n in range(len(grid.columns))]
        lines = [
            f"**{in_markdown(grid.title)}**",
            "",
            "| " + " | ".join(c.replace("_", " ") for c in grid.columns) + " |",
            "|" + "|".join(" ---: " if n else " --- " for n in numeric) + "|",
            *("| " + " | ".join(in_markdown(_cell(v)) for v in row) + " |" for row in grid.rows),
        ]
        if grid.notes:
            lines += ["", *(f"- {in_markdown(note)}" for note in grid.notes)]
        return "\n".join(lines) + "\n"

    def to_text(self) -> str:
        """The table in aligned columns, its one-line result above and its notes below.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> print(ranking.to_text().splitlines()[0])
        {a, b}
        """
        grid = self._grid()
        rows = [grid.columns, *([visible_line(_cell(v)) for v in row] for row in grid.rows)]
        numbers = [_numeric(grid, n) for n in range(len(grid.columns))]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, numbers)
            ).rstrip()
            for row in rows
        ]
        notes = ["", *map(visible_line, grid.notes)] if grid.notes else []
        return "\n".join([visible_line(grid.title), "", *lines, *notes])

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        grid = self._grid()
        numeric = [_numeric(grid, n) for n in range(len(grid.columns))]

        def row(tag: str, values: Sequence[Any]) -> str:
            cells = (
                f'<{tag} style="text-align: {"right" if right else "left"}">'
                f"{escape(visible_line(_cell(value)))}</{tag}>"
                for value, right in zip(values, numeric)
            )
            return f"<tr>{''.join(cells)}</tr>"

        head = row("th", [c.replace("_", " ") for c in grid.columns])
        notes = "".join(f"<li>{escape(visible_line(note))}</li>" for note in grid.notes)
        return (
            f"<p><strong>{escape(visible_line(grid.title))}</strong></p>"
            f"<table><thead>{head}</thead>"
            f"<tbody>{''.join(row('td', values) for values in grid.rows)}</tbody></table>"
            + (f"<ul>{notes}</ul>" if notes else "")
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {visible_line(self._grid().title)}>"


def _numeric(grid: Grid, column: int) -> bool:
    values = [row[column] for row in grid.rows if row[column] is not None]
    return bool(values) and all(isinstance(v, (int, float)) for v in values)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.4g}"


def in_markdown(text: str) -> str:
    r"""Text that is no markup, link, mention or new line in Markdown.

    Examples
    --------
    >>> print(in_markdown("[x](http://evil) *or* @team"))
    \[x\](http\://evil) \*or\* @&#8203;team
    >>> print(in_markdown("1. item"), in_markdown("- item"), in_markdown("-0.5"))
    1\. item \- item -0.5
    """
    shown = "".join(f"\\{c}" if c in "\\|*_`<>[]~&#" else c for c in visible_line(text))
    shown = re.sub(r"^(\s*\d*)([-+=.)])(?=[-+=\s]|$)", r"\1\\\2", shown)  # lists, rules
    shown = re.sub(r":(?=//)|(?<=\bwww)\.", r"\\\g<0>", shown)  # bare addresses are links, too
    return shown.replace("@", "@&#8203;")  # an escaped mention is one still
