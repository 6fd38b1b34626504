"""Text for people to read: short texts, untrusted text made safe, and tables of results.

Text that models, servers and users wrote can mislead: control characters move a terminal's cursor,
colour what follows or set its title; marks of the bidirectional algorithm reorder it; zero-width
characters make two different names look the same. This module replaces them by visible signs. It
leaves escaping for HTML to whatever writes HTML.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from html import escape
from typing import TYPE_CHECKING, Any, TextIO

from .masking import mask_text
from .plugins import needed

if TYPE_CHECKING:
    import pandas

_MISLEADING = re.compile(
    # C0 and C1 controls except tab, newline and carriage return.
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    # Soft hyphen, fillers and joiners without width, direction marks, embeddings and isolates.
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\uffa0\ufeff"
    # Line and paragraph separators, lone surrogates, interlinear annotations, tags.
    "\u2028\u2029\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
    # A (non-)joiner is part of words in many scripts and of emoji, but not next to ASCII.
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_ENDS_LINE = re.compile("[\t\n\r]")
#: Half width of an interval that six decimals do not show.
_FINEST = 1e-6
#: Half width of an interval whose units a reader no longer counts.
_WIDEST = 1e15
#: The largest float has 309 digits before its point.
_ALL_DIGITS = Context(prec=400)
#: Number of first words by which the kind of a warning is known.
_WORDS_OF_KIND = 4
#: Characters with a meaning in an order; a name that has one is shown in quotation marks.
_SIGNS_OF_ORDER = re.compile(r"[<>{}~=,\u201c\u201d\"]|^\s|\s$|^$")


class PathNames(dict[str, str]):
    """What paths are called in texts, where they lie in a folder that is temporary.

    Examples
    --------
    >>> PathNames({"/tmp/x": "logs.zip", "/tmp/x/0": "hub:a/b"})("/tmp/x/0/m.json: empty")
    'hub:a/b/m.json: empty'
    """

    def __call__(self, text: str) -> str:
        """Return a text in which the paths are called by their names."""
        for path in sorted(self, key=len, reverse=True):
            text = text.replace(path, self[path])
        return text


def some(values: Sequence[Any], limit: int = 5) -> str:
    """Join the first few values of a list.

    Examples
    --------
    >>> some([1, 2, 3], limit=2)
    '1, 2, ...'
    """
    text = ", ".join(map(str, values[:limit]))
    return text if len(values) <= limit else f"{text}, ..."


def first_of(values: Sequence[Any], limit: int) -> str:
    """Join the first few values of a list, and say how many more there are.

    Examples
    --------
    >>> first_of(["a", "b", "c"], limit=1)
    'a and 2 more'
    """
    left_out = len(values) - limit
    return ", ".join(map(str, values[:limit])) + (f" and {left_out} more" if left_out > 0 else "")


def plural(count: int, what: str) -> str:
    """Join a count and its noun, in the plural where needed.

    Examples
    --------
    >>> plural(1, "item"), plural(3, "item")
    ('1 item', '3 items')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def short(text: Any, width: int = 60) -> str:
    """Return the text of a value or error on one line, cut to a maximum width.

    Examples
    --------
    >>> short(ValueError("no\\nnumber")), short("x" * 9, width=5)
    ('no number', 'xx...')
    """
    line = " ".join(str(text).split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def item_text(item: object) -> str:
    """Format an item for readers.

    Examples
    --------
    >>> item_text(3), item_text(("gsm", 3)), item_text(["gsm", 3])
    ('3', 'gsm: 3', 'gsm: 3')
    """
    return ": ".join(map(str, item)) if isinstance(item, tuple | list) else str(item)


def one_line_per_kind(warnings: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line per kind of warning, with the number of tasks that have one of the kind.

    Two warnings are of one kind if their first words agree, names of files and numbers aside. Of
    several that differ, the first is shown without its doc_ids. Warnings of a single task stay as
    they are.

    Examples
    --------
    >>> warnings = {"t": ["3 documents differ (doc_id 7)"], "u": ["5 documents differ (doc_id 1)"]}
    >>> one_line_per_kind(warnings)
    ['2 of 2 (t, u), the first: 3 documents differ']
    >>> one_line_per_kind({"t": ["no prompts are known"], "u": ["no prompts are known"], "v": []})
    ['2 of 3 (t, u): no prompts are known']
    """
    kinds: dict[tuple[str, ...], dict[str, str]] = {}
    for task, texts in warnings.items():
        for text in texts:
            words = [word for word in text.split() if not re.search(r"[\d/\\]", word)]
            kinds.setdefault(tuple(words[:_WORDS_OF_KIND]), {}).setdefault(task, text)
    lines = []
    for text_by_task in kinds.values():
        [(tasks, text), *further] = text_by_task.items()
        if further:
            tasks = f"{len(text_by_task)} of {len(warnings)} ({first_of(list(text_by_task), 3)})"
            if len(set(text_by_task.values())) > 1:
                tasks, text = f"{tasks}, the first", re.sub(r" \(doc_id [^()]*\)", "", text)
        lines.append(text if len(warnings) == 1 else f"{tasks}: {text}")
    return lines


def decimals_for(error: float) -> int:
    """Return the number of decimals that show two significant digits of an error.

    Examples
    --------
    >>> decimals_for(0.013), decimals_for(2.4)
    (3, 1)
    """
    # Without an error nothing says how many digits mean something.
    if not (math.isfinite(error) and error > 0.0):
        return 3
    return min(6, max(0, 1 - math.floor(math.log10(error))))


def rounded(value: float, decimals: int, sign: str = "") -> str:
    """Format a number with decimals, halves away from 0, and never a negative zero.

    Parameters
    ----------
    value : float
    decimals : int
    sign : str, optional
        "+" to write the sign of what is above 0 as well.

    Examples
    --------
    >>> rounded(1e30, 0)
    '1000000000000000000000000000000'
    >>> rounded(0.25, 1), rounded(-0.25, 1, "+"), rounded(0.35, 1), rounded(-0.001, 1, "+")
    ('0.3', '-0.3', '0.4', '+0.0')
    >>> rounded(0.8705, 3), rounded(0.8704999999999999, 3)
    ('0.871', '0.871')
    """
    if not math.isfinite(value):
        return f"{value:{sign}}"
    # Fourteen digits are the number that a reader rounds; those beyond are binary, and what a sum
    # of scores loses by their order.
    finest = Decimal(1).scaleb(-decimals)
    number = Decimal(f"{float(value):.14g}").quantize(finest, ROUND_HALF_UP, _ALL_DIGITS)
    return f"{abs(number) if number == 0 else number:{sign}f}"


def whole_percent(share: float) -> str:
    """Format a probability in whole per cent, never rounded to certainty.

    Examples
    --------
    >>> whole_percent(0.994), whole_percent(0.997), whole_percent(0.001)
    ('99', '>99', '<1')
    """
    # A probability that is not 1 must not be printed as certainty.
    if share >= 0.995:
        return ">99"
    return "<1" if share < 0.005 else f"{100 * share:.0f}"


def exact_percent(share: float) -> str:
    """Format a confidence in per cent with all digits that it was stated with.

    Examples
    --------
    >>> exact_percent(0.95), exact_percent(0.999), exact_percent(0.9999999999)
    ('95%', '99.9%', '99.99999999%')
    """
    # With six digits, the usual number, 0.9999999 would be printed as certainty.
    return f"{100.0 * share:.12g}%"


def difference_texts(low: float, middle: float, high: float, margin: float = 0.0) -> list[str]:
    """Return low, middle and high of a difference as texts, with decimals to match their distance.

    A reader can tell from the texts whether the interval excludes 0. An end that is not 0 gets so
    many decimals that it is not rounded to 0; so does the difference, if both ends are on one side
    of 0. Six decimals are the most: what they would show as 0 becomes ">0" or "<0", as for a pair
    that was decided at an earlier look. Nor is an end rounded to the margin, or to its opposite.

    Examples
    --------
    >>> difference_texts(-0.0381123, -0.0190812, -0.0000507)
    ['-0.0381', '-0.0191', '-0.0001']
    >>> difference_texts(-0.0381123, -0.0190812, 0.0021)
    ['-0.038', '-0.019', '+0.002']
    >>> difference_texts(float("-inf"), 0.25, float("inf"))
    ['-inf', '+0.25', '+inf']
    >>> difference_texts(2.0215, 11.24, 22.09, margin=2.0)
    ['+2.02', '+11.24', '+22.09']
    >>> difference_texts(1e-12, 0.066, 0.145), difference_texts(-0.0, -0.0, -0.0)
    (['>0', '+0.066', '+0.145'], ['+0', '+0', '+0'])
    >>> difference_texts(1e-12, 0.0004, 0.19), difference_texts(1e-9, 2e-9, 3e-9)
    (['>0', '+0.0004', '+0.1900'], ['+1e-09', '+2e-09', '+3e-09'])
    >>> difference_texts(-3e30, 1e30, 5e30)
    ['-3e+30', '+1e+30', '+5e+30']
    """
    half_width = (high - low) / 2.0
    # Decimals cannot show such an interval, and one without ends has no width to match.
    if not _FINEST < half_width < _WIDEST:
        return [f"{value + 0.0:+.4g}" for value in (low, middle, high)]
    decimals = decimals_for(half_width)
    excludes_0 = low > 0.0 or high < 0.0
    # What no figure may be rounded to: 0, and for ends the margin and its opposite.
    distances = [abs(low), *([abs(middle)] if excludes_0 else []), abs(high)]
    distances += [abs(abs(end) - margin) for end in (low, high) if margin]
    if distances := [size for size in distances if rounded(size, 6).strip("0.")]:
        # The smallest is then at least half a unit of the last decimal.
        decimals = max(decimals, min(6, math.ceil(-math.log10(2.0 * min(distances)))))

    def text(value: float, keeps_sign: bool) -> str:
        """Return a figure, or the side of 0 on which it is if decimals do not show that."""
        shown = rounded(value, decimals, "+")
        if keeps_sign and value != 0.0 and not shown.strip("+-0."):
            return ">0" if value > 0.0 else "<0"
        return shown

    return [text(low, True), text(middle, excludes_0), text(high, True)]


# -- untrusted text ------------------------------------------------------------------------------


def visible(text: Any) -> str:
    r"""Replace control, direction and zero-width characters by visible signs.

    Examples
    --------
    >>> visible("a\x00b\u202ec")
    'a␀b⟨U+202E⟩c'
    """
    return _MISLEADING.sub(_sign, str(text))


def visible_line(text: Any) -> str:
    r"""Do as `visible`, and replace tabs and line breaks by signs as well.

    Examples
    --------
    >>> visible_line("one\ntwo")
    'one␊two'
    """
    return _ENDS_LINE.sub(_sign, visible(text))


def visible_name(text: Any) -> str:
    """Return a name on one line, in quotation marks if it could be taken for part of an order.

    Examples
    --------
    >>> visible_name("gpt-4.1"), visible_name("a > b")
    ('gpt-4.1', '“a > b”')
    """
    name = visible_line(text)
    # Only names that could be read as part of "a > b" need quotation marks.
    if not _SIGNS_OF_ORDER.search(name):
        return name
    return "“" + name.replace("“", "‹").replace("”", "›") + "”"


def is_named(name: str, text: str) -> bool:
    """Whether a text names a model, and not only another one whose name holds this one's.

    Examples
    --------
    >>> is_named("gpt-4", "gpt-4o > gpt-4, by 2"), is_named("gpt-4", "gpt-4o > gpt-4.1, by 2")
    (True, False)
    """
    # Before a name stands a blank or a brace; after it one of these, a comma or a semicolon.
    return bool(re.search(rf"(?<![^\s{{]){re.escape(visible_name(name))}(?![^\s,;}}])", text))


def visible_values(value: Any, names: Collection[str] = ()) -> Any:
    """Apply `visible_name` to the names in JSON values, and `visible_line` to all other text.

    Examples
    --------
    >>> visible_values({"a > b": ["a > b", "why"]}, names={"a > b"})
    {'“a > b”': ['“a > b”', 'why']}
    """
    if isinstance(value, str):
        return visible_name(value) if value in names else visible_line(value)
    if isinstance(value, Mapping):
        return {
            visible_values(key, names): visible_values(entry, names) for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return [visible_values(entry, names) for entry in value]
    return value


def visible_json(value: Any) -> str:
    r"""Return JSON with misleading characters escaped; it reads back as the same value.

    Objects that JSON does not know are written as their text.

    Examples
    --------
    >>> visible_json("a\u202eb")
    '"a\\u202eb"'
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return _MISLEADING.sub(lambda match: _escaped(match.group()), text)


def _escaped(text: str) -> str:
    r"""Return a text as JSON may escape it: ``\uXXXX`` for each unit of its UTF-16."""
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _sign(match: re.Match[str]) -> str:
    """Return the sign that is shown in place of a character."""
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode has a picture of every C0 control
    return f"⟨U+{code:04X}⟩"


def in_markdown(text: str) -> str:
    r"""Escape a text so that Markdown sees no markup, link, mention or line break in it.

    Examples
    --------
    >>> print(in_markdown("[x](http://evil) *or* @team"))
    \[x\](http\://evil) \*or\* @&#8203;team
    >>> print(in_markdown("1. item"), in_markdown("- item"), in_markdown("-0.5"))
    1\. item \- item -0.5
    """
    escaped = "".join(
        f"\\{letter}" if letter in "\\|*_`<>[]~&#" else letter for letter in visible_line(text)
    )
    escaped = re.sub(r"^(\s*\d*)([-+=.)])(?=[-+=\s]|$)", r"\1\\\2", escaped)  # lists, rules
    escaped = re.sub(r":(?=//)|(?<=\bwww)\.", r"\\\g<0>", escaped)  # bare addresses become links
    return escaped.replace("@", "@&#8203;")  # a backslash does not stop a mention


# -- output of commands --------------------------------------------------------------------------


class SafeStream:
    """A text stream that masks credentials and makes misleading characters visible.

    A character that the stream's encoding lacks becomes ``\\uXXXX``, as JSON has it.

    Parameters
    ----------
    stream : TextIO
    escapes : bool, optional
        Let escape sequences pass if the stream is a terminal: a console draws tables with them,
        from text that was made safe before.
    """

    def __init__(self, stream: TextIO, escapes: bool = False) -> None:
        self._stream = stream
        self._passes_escapes = escapes and bool(stream.isatty())

    def with_escapes(self) -> SafeStream:
        """Return the same stream for a console that draws with escape sequences."""
        return SafeStream(self._stream, escapes=True)

    def write(self, text: str) -> int:
        """Make a text safe and write it."""
        parts = text.split("\x1b") if self._passes_escapes else [text]
        safe = "\x1b".join(visible(mask_text(part)) for part in parts)
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        # A locale such as Latin-1 has no signs for the names of some models.
        if safe.encode(encoding, "ignore").decode(encoding) != safe:
            safe = "".join(
                sign if sign.encode(encoding, "ignore") else _escaped(sign) for sign in safe
            )
        self._stream.write(safe)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Make lines safe and write them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def with_escapes(stream: Any) -> Any:
    """Return a stream for a console that draws with escape sequences."""
    return stream.with_escapes() if isinstance(stream, SafeStream) else stream


@contextlib.contextmanager
def safe_streams(escapes: bool = False) -> Iterator[None]:
    """Make standard output and standard error safe while a command runs.

    Parameters
    ----------
    escapes : bool, optional
        Whether escape sequences pass to a terminal, as the harness's own commands need.
    """
    before = sys.stdout, sys.stderr
    # A command inside a command: the text would be made safe twice.
    if isinstance(before[0], SafeStream):
        yield
        return
    # In a program without a console both are None.
    out, err = (io.StringIO() if stream is None else stream for stream in before)
    sys.stdout, sys.stderr = SafeStream(out, escapes), SafeStream(err, escapes)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


# -- tables of results ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownTable:
    """A table of a result.

    Attributes
    ----------
    title : str
        The result in one line.
    columns : tuple of str
    rows : sequence of sequence
        Unrounded numbers or text; None where a cell is empty.
    notes : tuple of str
        What a reader of the numbers should know.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    notes: tuple[str, ...] = ()

    @property
    def cells(self) -> list[list[str]]:
        """The rows as texts that are safe to show."""
        return [[visible_line(_cell(value)) for value in row] for row in self.rows]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers, which are aligned at the right."""
        columns = ([cell for cell in column if cell is not None] for column in zip(*self.rows))
        kinds = [
            bool(column) and all(isinstance(cell, int | float) for cell in column)
            for column in columns
        ]
        return kinds or [False] * len(self.columns)  # a table without rows


class Shown:
    """Base of results that are shown as tables, which a subclass returns from `_grid`."""

    def _grid(self) -> ShownTable:
        """Return the result as a table."""
        raise TypeError(f"{type(self).__name__} has no table")  # pragma: no cover

    def to_dataframe(self) -> pandas.DataFrame:
        """Return the table as a pandas data frame with unrounded numbers.

        Raises
        ------
        UsageError
            If pandas is not installed.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> list(ranking.to_dataframe().model)
        ['a', 'b']
        """
        pandas = needed("pandas", "to_dataframe", "pandas")
        grid = self._grid()
        columns = list(grid.columns)
        return pandas.DataFrame([dict(zip(columns, row)) for row in grid.rows], columns=columns)

    def to_markdown(self) -> str:
        """Return the table in Markdown, between the result in one line and the notes.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> print(ranking.to_markdown().splitlines()[0])
        **{a, b}**
        """
        grid = self._grid()
        lines = [
            f"**{in_markdown(grid.title)}**",
            "",
            "| " + " | ".join(column.replace("_", " ") for column in grid.columns) + " |",
            "|" + "|".join(" ---: " if right else " --- " for right in grid.numeric) + "|",
            *("| " + " | ".join(map(in_markdown, row)) + " |" for row in grid.cells),
        ]
        if grid.notes:
            lines += ["", *(f"- {in_markdown(note)}" for note in grid.notes)]
        return "\n".join(lines) + "\n"

    def to_text(self) -> str:
        """Return the table in aligned columns, between the result in one line and the notes.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> print(ranking.to_text().splitlines()[0])
        {a, b}
        """
        grid = self._grid()
        rows = [grid.columns, *grid.cells]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, grid.numeric)
            ).rstrip()
            for row in rows
        ]
        notes = ["", *map(visible_line, grid.notes)] if grid.notes else []
        return "\n".join([visible_line(grid.title), "", *lines, *notes])

    def _repr_html_(self) -> str:
        """Return the table as HTML, for a notebook."""
        grid = self._grid()

        def row(tag: str, texts: Sequence[str]) -> str:
            cells = (
                f'<{tag} style="text-align: {"right" if right else "left"}">{escape(text)}</{tag}>'
                for text, right in zip(texts, grid.numeric)
            )
            return f"<tr>{''.join(cells)}</tr>"

        head = row("th", [column.replace("_", " ") for column in grid.columns])
        notes = "".join(f"<li>{escape(visible_line(note))}</li>" for note in grid.notes)
        return (
            f"<p><strong>{escape(visible_line(grid.title))}</strong></p>"
            f"<table><thead>{head}</thead>"
            f"<tbody>{''.join(row('td', texts) for texts in grid.cells)}</tbody></table>"
            + (f"<ul>{notes}</ul>" if notes else "")
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {visible_line(self._grid().title)}>"


def _cell(value: Any) -> str:
    """Return the text of a cell; a fraction has four digits."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.4g}"
