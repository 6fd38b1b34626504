"""What every command prints: no credential, and nothing that steers the terminal or misleads."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from ..masking import mask_text
from ..visible import visible


class SafeStream:
    """A text stream that masks credentials and makes misleading characters visible.

    Where the stream is a terminal, escape sequences pass: the live table is drawn with them.  What
    models, servers and files say is made visible before it is drawn.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn_on = bool(stream.isatty())

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


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Standard output and standard error, made safe for as long as a command runs."""
    out, err = sys.stdout, sys.stderr
    if isinstance(out, SafeStream):
        yield
        return
    sys.stdout, sys.stderr = SafeStream(out), SafeStream(err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
