"""The end of a sample row: its filter, its document's hash and one number.

The harness writes these last, after several kB of document, prompt and answer. A pattern over the
last few hundred bytes reads them in a tenth of the time that a parse of the row takes. What the
pattern does not know in full (other keys, texts with escapes, NaN) is left to the parser.
"""

from __future__ import annotations

import json
import re

_TEXT = rb'"[^"\\\x00-\x1f\x7f-\xff]*"'
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?"
# A second one of these would be the one that counts.
_ONCE = ("doc_id", "filter", "metrics", "filtered_resps", "doc_hash")

_HEAD = b'{"doc_id": '
_FILTER = b'"filter": '
_HASH = b'"doc_hash": '
_FIRST = re.compile(rb'\{"doc_id": ([0-9]{1,18}), "doc": ')

#: doc_id, filter (None where the row names none), doc_hash, the number as it stands there.
Tail = tuple[int, "str | None", str, bytes]


class Tails:
    """Reads the ends of rows that report one number.

    Parameters
    ----------
    key : str
        The metric.

    Examples
    --------
    >>> row = (b'{"doc_id": 7, "doc": {}, "filter": "none", "metrics": ["acc"], '
    ...        b'"doc_hash": "9f", "acc": 1.0}')
    >>> Tails("acc").read(row)
    (7, 'none', '9f', b'1.0')
    """

    def __init__(self, key: str) -> None:
        own = b'"' + re.escape(json.dumps(key, ensure_ascii=False)[1:-1].encode()) + b'"'
        usual = rb'(?:, "prompt_hash": "\w*", "target_hash": "\w*")?'
        once = b"|".join([own, *(f'"{name}"'.encode() for name in _ONCE)])
        other = rb"(?:, (?!" + once + rb")" + _TEXT + rb": (?:" + _TEXT + rb"|" + _NUMBER + rb"))*"
        named = _FILTER + rb'"([\w .:@+-]*)", "metrics": \[(?:' + _TEXT + rb"(?:, )?)*\], "
        rest = (
            _HASH + rb'"(\w*)"' + usual + other + rb", " + own + rb": (" + _NUMBER + rb")" + other
        )
        self._named = re.compile(named + rest + rb"\}[ \t\r\n]*\Z")
        self._nameless = re.compile(rb"()" + rest + rb"\}[ \t\r\n]*\Z")

    def read(self, line: bytes) -> Tail | None:
        """Read one row; None where it must be parsed.

        In JSON a quote inside a string is escaped, so ``"key": `` can only be a key; and what
        follows it to the row's last brace holds no brace, so it stands at the row's own level. A
        second beginning of a row, or a zero byte, is the sign of a write that was cut off and later
        continued.
        """
        first = _FIRST.match(line)
        if first is None or line.rfind(_HEAD) != 0 or b"\0" in line:
            return None
        at, pattern = line.rfind(_FILTER), self._named
        if at < 0:
            at, pattern = line.rfind(_HASH), self._nameless
        found = pattern.match(line, at) if at >= 0 else None
        if found is None:
            return None
        name = found[1].decode() if pattern is self._named else None
        return int(first[1]), name, found[2].decode(), found[3]
