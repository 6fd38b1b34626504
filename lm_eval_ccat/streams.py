"""What every command prints: no credential, and nothing that steers the terminal or misleads."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from .masking import mask_text
from .visible import visible


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
