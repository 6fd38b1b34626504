"""Text that models, servers and users wrote, made safe to show on any surface.

Control characters can move a terminal's cursor, colour what follows or set its title; marks of the
bidirectional algorithm reorder it; zero-width characters make two different names look the same.
Here they become visible signs.  Escaping for HTML or Markdown is the writer's own work.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TextIO

from .masking import mask_text

_MISLEADING = re.compile(
    # C0 and C1 controls except tab, newline and carriage return.
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    # Soft hyphen, fillers and joiners without width, direction marks, embeddings and isolates.
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\uffa0\ufeff"
    # Line and paragraph separators, lone surrogates, interlinear annotations, tags.
    "\u2028\u2029\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
    # A (non-)joiner is part of words in many scripts and of emoji, but not beside ASCII.
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_ENDS_LINE = re.compile("[\t\n\r]")
#: What the line of an order is made of; a name that holds any of it is shown in quotation marks.
_OF_AN_ORDER = re.compile(r"[<>{}~=,\u201c\u201d\"]|^\s|\s$|^$")


def visible(text: Any) -> str:
    r"""Text with control, direction and zero-width characters replaced by visible signs.

    Examples
    --------
    >>> visible("a\x00b\u202ec")
    'a␀b⟨U+202E⟩c'
    """
    return _MISLEADING.sub(_sign, str(text))


def visible_line(text: Any) -> str:
    r"""Visible text that stays on one line.

    Examples
    --------
    >>> visible_line("one\ntwo")
    'one␊two'
    """
    return _ENDS_LINE.sub(_sign, visible(text))


def visible_name(text: Any) -> str:
    """A name on one line; in quotation marks where it could be taken for part of an order.

    Examples
    --------
    >>> visible_name("gpt-4.1"), visible_name("a > b")
    ('gpt-4.1', '“a > b”')
    """
    name = visible_line(text)
    if not _OF_AN_ORDER.search(name):
        return name
    return "“" + name.replace("“", "‹").replace("”", "›") + "”"


def visible_values(value: Any, names: Collection[str] = ()) -> Any:
    """JSON values with every text on one visible line, and names as `visible_name` shows them.

    Examples
    --------
    >>> visible_values({"a > b": ["a > b", "why"]}, names={"a > b"})
    {'“a > b”': ['“a > b”', 'why']}
    """
    if isinstance(value, str):
        return visible_name(value) if value in names else visible_line(value)
    if isinstance(value, Mapping):
        return {visible_values(k, names): visible_values(v, names) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [visible_values(one, names) for one in value]
    return value


def visible_json(value: Any, indent: int | None = 2) -> str:
    r"""Return JSON with misleading characters escaped; it reads back as the same value.

    Examples
    --------
    >>> visible_json("a\u202eb")
    '"a\\u202eb"'
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return _MISLEADING.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode has a picture of every C0 control
    return f"⟨U+{code:04X}⟩"


# -- what every command prints -------------------------------------------------------------------


class SafeStream:
    """A text stream that masks credentials and makes misleading characters visible.

    Parameters
    ----------
    stream : TextIO
    drawn : bool, optional
        Let escape sequences pass where the stream is a terminal: tables are drawn with them, out of
        text that was made visible before.
    """

    def __init__(self, stream: TextIO, drawn: bool = False) -> None:
        self._stream = stream
        self._drawn_on = drawn and bool(stream.isatty())

    def to_draw(self) -> SafeStream:
        """Return the same stream for a console that draws."""
        return SafeStream(self._stream, drawn=True)

    def write(self, text: str) -> int:
        """Write a text, made safe."""
        parts = text.split("\x1b") if self._drawn_on else [text]
        self._stream.write("\x1b".join(visible(mask_text(part)) for part in parts))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, made safe."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def to_draw(stream: Any) -> Any:
    """A stream as a console that draws may have it."""
    return stream.to_draw() if isinstance(stream, SafeStream) else stream


@contextlib.contextmanager
def safe_streams(drawn: bool = False) -> Iterator[None]:
    """Standard output and standard error, made safe for as long as a command runs.

    Parameters
    ----------
    drawn : bool, optional
        Whether escape sequences pass for everybody, as the harness's own commands need it.
    """
    before = sys.stdout, sys.stderr
    if isinstance(before[0], SafeStream):
        yield
        return
    # A program without a console has neither.
    out, err = (io.StringIO() if stream is None else stream for stream in before)
    sys.stdout, sys.stderr = SafeStream(out, drawn), SafeStream(err, drawn)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
