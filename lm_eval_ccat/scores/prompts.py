"""Prompts as identity: a short mark of each item's prompt, a digest of all, and what differs.

A score means what its prompt asked. A mark is the first eight hex digits of the SHA-256 of the text
as sent; of chat messages as canonical JSON, before any template, so that models with templates of
their own have equal marks. Where likelihoods are asked, an item has several requests, and the mark
is that of all contexts and continuations: other choices, or another order of them, are another
prompt. A harness log of a model behind a chat template holds only what the template wrote. Its mark
begins with ``~`` and three digits of the template's hash, and can be compared with marks of the
same template alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..shown import short, visible_line

#: Mark of each item's prompt by doc_id; None where it is not known.
Marks = Mapping[Any, str | None]
#: The two prompts of each of some items as texts, where both are at hand, by doc_id.
Texts = Mapping[Any, tuple[str, str]]

#: A prompt, and the continuation whose likelihood is asked; None where the model generates.
Request = tuple[Any, str | None]

#: Hex digits of the hash of a prompt, and of that of a template, in a mark.
DIGITS = 8
_TEMPLATE_DIGITS = 3
#: First character of the mark of a text that a chat template wrote.
WRITTEN = "~"
#: Characters of either prompt that are shown, from their first difference on.
_MAX_SHOWN = 24


@dataclass(frozen=True, eq=False)
class Prompts:
    """Marks of the prompts of several rows of scores, each asked in its own way.

    Attributes
    ----------
    marks : tuple of str
        The distinct marks.
    codes : ndarray of int, shape (n_rows, n_items)
        Position of each mark in `marks`; -1 where it is not known.

    Examples
    --------
    >>> prompts = Prompts(("70b499c5", "0a1b2c3d"), np.array([[0, -1], [0, 1], [1, 1]]))
    >>> prompts.of_row(0), prompts.common
    (('70b499c5', None), ('70b499c5', '0a1b2c3d'))
    """

    marks: tuple[str, ...]
    codes: NDArray[np.int32]

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[str | None]]) -> Prompts | None:
        """Return the prompts of rows that hold a mark for each item; None if no mark is known."""
        code_of: dict[str | None, int] = {None: -1}
        codes = [[code_of.setdefault(mark, len(code_of) - 1) for mark in row] for row in rows]
        del code_of[None]
        return cls(tuple(map(str, code_of)), np.array(codes, dtype=np.int32)) if code_of else None

    def of_row(self, row: int) -> tuple[str | None, ...]:
        """Return the mark of each item's prompt in one row."""
        return self._named(self.codes[row])

    @property
    def common(self) -> tuple[str | None, ...]:
        """The mark that most rows have of each item; of equally frequent ones the first."""
        return self._named(self._common_codes)

    @property
    def unlike(self) -> NDArray[np.bool_]:
        """Whether each row was asked another prompt than most for some item."""
        # The template of each mark, as a number. Marks of texts that different templates wrote
        # cannot be compared. At a code of -1, `differ` is false, whatever template stands there.
        templates = np.unique([mark[:-DIGITS] for mark in self.marks], return_inverse=True)[1]
        common = self._common_codes
        differ = (self.codes >= 0) & (common >= 0) & (self.codes != common)
        comparable = templates[self.codes] == templates[common]
        return np.asarray((differ & comparable).any(axis=1))

    @cached_property
    def _common_codes(self) -> NDArray[np.int_]:
        """Position in `marks` of the mark that most rows have of each item; -1 if none is known."""
        n_marks, known = len(self.marks), self.codes >= 0
        # An item and a mark as one number, so that equal ones are counted at once.
        cells = np.nonzero(known)[1] * n_marks + self.codes[known]
        cells, counts = np.unique(cells, return_counts=True)
        items, marks = np.divmod(cells, n_marks)
        # By item, the most frequent mark first; of equally frequent ones the first.
        order = np.lexsort((marks, -counts, items))
        items, first = np.unique(items[order], return_index=True)
        common = np.full(self.codes.shape[1], -1)
        common[items] = marks[order][first]
        return common

    def take(self, rows: Any = slice(None), items: Any = slice(None)) -> Prompts:
        """Return the prompts of some rows and items, by their positions."""
        return Prompts(self.marks, self.codes[rows][:, items])

    def _named(self, codes: NDArray[Any]) -> tuple[str | None, ...]:
        """Return marks by their positions in `marks`; None for -1."""
        return tuple(None if code < 0 else self.marks[code] for code in codes.tolist())


def requests_of(arguments: Any) -> list[Request]:
    """Return the requests of an item, as the harness logs them or as it hands them to a model.

    Parameters
    ----------
    arguments : mapping, sequence or None
        Of each request, its prompt and its continuation or generation settings.

    Examples
    --------
    >>> requests_of({"gen_args_0": {"arg_0": "2 + 2?", "arg_1": {"until": []}}})
    [('2 + 2?', None)]
    >>> requests_of([("2 + 2?", " 4"), ("2 + 2?", " 5"), ("", " 4"), ("", " 5")])
    [('2 + 2?', ' 4'), ('2 + 2?', ' 5')]
    """
    requests = []
    for request in _parts(arguments):
        context, *continuations = _parts(request) or [""]
        continuation = (
            continuations[0] if continuations and isinstance(continuations[0], str) else None
        )
        requests.append((context, continuation))
    # A metric of mutual information also asks every choice without a context. That is no other
    # prompt, and a bank of another metric of the same task lacks these requests.
    return [request for request in requests if request[0] != ""] or requests


def generation_of(arguments: Any) -> dict[str, object]:
    """Return the generation settings of an item's first request; {} where it states none.

    Examples
    --------
    >>> generation_of({"gen_args_0": {"arg_0": "2 + 2?", "arg_1": {"temperature": 0.8}}})
    {'temperature': 0.8}
    """
    for request in _parts(arguments)[:1]:
        for settings in (part for part in _parts(request) if isinstance(part, Mapping)):
            return dict(settings)
    return {}


def _parts(arguments: Any) -> list[Any]:
    """Return the requests of an item's arguments, or the parts of one request, in order.

    The harness logs both as mappings, and hands both to a model as sequences. None is of a log
    without arguments; any other value is itself the only part.

    Examples
    --------
    >>> _parts({"arg_0": "2 + 2?", "arg_1": {"until": []}}), _parts(("2 + 2?", " 4"))
    (['2 + 2?', {'until': []}], ['2 + 2?', ' 4'])
    >>> _parts("2 + 2?"), _parts(None)
    (['2 + 2?'], [])
    """
    if isinstance(arguments, Mapping):
        return list(arguments.values())
    if isinstance(arguments, (list, tuple)):
        return list(arguments)
    return [] if arguments is None else [arguments]


def as_sent(prompt: Any) -> str:
    """Return a prompt as text: chat messages as the JSON that the harness makes of them."""
    return str(_text_alone(prompt))


def _text_alone(prompt: Any) -> Any:
    """Return the text of a list of one text, as the harness logs messages for a server."""
    if isinstance(prompt, (list, tuple)) and len(prompt) == 1 and isinstance(prompt[0], str):
        return prompt[0]
    return prompt


def canonical(prompt: Any) -> str:
    """Return a prompt as text: chat messages as canonical JSON, anything else as it is.

    Examples
    --------
    >>> canonical('[{"role": "user", "content": "2 + 2?", "type": "text"}]')
    '[{"content":"2 + 2?","role":"user"}]'
    >>> canonical("2 + 2?")
    '2 + 2?'
    """
    messages = messages_of(prompt)
    if messages is None:
        return str(prompt)
    plain = [
        {key: value for key, value in message.items() if (key, value) != ("type", "text")}
        for message in messages
    ]
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def messages_of(prompt: Any) -> list[dict[str, Any]] | None:
    """Return the chat messages that a prompt states, as objects or as JSON; None for a text."""
    prompt = _text_alone(prompt)
    if isinstance(prompt, str):
        if not prompt.startswith("[{"):
            return None
        try:
            prompt = json.loads(prompt)
        except (ValueError, RecursionError):
            return None
    if not isinstance(prompt, (list, tuple)) or not prompt:
        return None
    # A task may ask for JSON in its text, which begins alike.
    are_messages = all(
        isinstance(message, dict) and {"role", "content"} <= message.keys() for message in prompt
    )
    return list(prompt) if are_messages else None


def text_of_requests(requests: Sequence[Request], write: Callable[[Any], str] = canonical) -> str:
    """Return what the requests of an item ask, as one text.

    Parameters
    ----------
    requests : sequence of (prompt, continuation)
    write : callable, optional
        Makes a text of a prompt: `canonical`, or `as_sent`.

    Examples
    --------
    >>> text_of_requests([("2 + 2?", None)])
    '2 + 2?'
    >>> text_of_requests([("2 + 2?", " 4"), ("2 + 2?", " 5")])
    '[["2 + 2?",[" 4"," 5"]]]'
    """
    match requests:
        case [(prompt, None)]:
            return write(prompt)
    # Choices share their prompt, whose text would stand here and be hashed once for each.
    texts = [
        (write(prompt), [continuation for _, continuation in choices])
        for prompt, choices in groupby(requests, key=itemgetter(0))
    ]
    return json.dumps(texts, separators=(",", ":"), ensure_ascii=False)


def hash_of(text: str) -> str:
    """Return the SHA-256 of a text in hex, as the harness does."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def mark_of(prompt: Any) -> str:
    """Return the mark of a prompt: of a text as sent, or of chat messages.

    Examples
    --------
    >>> mark_of("2 + 2?")
    '70b499c5'
    >>> chat = [{"role": "user", "content": "2 + 2?"}]
    >>> mark_of(chat) == mark_of(json.dumps(chat)) != mark_of("2 + 2?")
    True
    """
    return hash_of(canonical(prompt))[:DIGITS]


def written_mark(prompt_hash: str, template: str) -> str:
    """Return the mark of a text that a chat template wrote.

    Parameters
    ----------
    prompt_hash, template : str
        SHA-256 of what is asked and of the template, in hex.

    Examples
    --------
    >>> written_mark("0123456789", "abcdef")
    '~abc01234567'
    """
    return f"{WRITTEN}{template[:_TEMPLATE_DIGITS]}{prompt_hash[:DIGITS]}"


def digest_of(marks: Sequence[str | None]) -> str | None:
    """Return a digest of the marks of all items in their order; None if none is known.

    Examples
    --------
    >>> digest_of(["70b499c5", None]), digest_of([None, None])
    ('63d1cdccea8c', None)
    """
    if not any(marks):
        return None
    return hashlib.sha256("\n".join(mark or "" for mark in marks).encode()).hexdigest()[:12]


def differing(theirs: Marks, ours: Marks) -> tuple[list[Any], int]:
    """Return the doc_ids whose marks differ, and how many marks can be compared.

    Examples
    --------
    >>> differing({1: "aa", 2: "bb", 3: None}, {1: "aa", 2: "cc", 3: "dd"})
    ([2], 2)
    """
    changed: list[Any] = []
    n_compared = 0
    for doc_id, mark in theirs.items():
        our_mark = ours.get(doc_id)
        # Marks of texts that different templates wrote differ without saying anything.
        if mark and our_mark and mark[:-DIGITS] == our_mark[:-DIGITS]:
            n_compared += 1
            if mark != our_mark:
                changed.append(doc_id)
    return changed, n_compared


class PromptComparison(NamedTuple):
    """How the prompts of two sides compare.

    Attributes
    ----------
    difference : str
        In what they differ; "" if they do not.
    doubt : str
        What is not known of them; "" for nothing.
    """

    difference: str = ""
    doubt: str = ""


def compare_prompts(
    theirs: Marks,
    ours: Marks,
    names: tuple[str, str] = ("the bank", "the run"),
    texts: Callable[[Sequence[Any]], Texts] = lambda doc_ids: {},
) -> PromptComparison:
    """Compare the prompts of two sides by their marks.

    Parameters
    ----------
    theirs, ours : mapping of doc_id to (str or None)
        Marks of the prompts; items that only one side has are not compared.
    names : (str, str)
        Whose marks they are.
    texts : callable, optional
        Returns the two prompts of doc_ids, for those of which both are at hand.

    Examples
    --------
    >>> texts = {7: ("Q: 2", "Q: 3")}
    >>> compare_prompts({7: "0a1b2c3d"}, {7: "4e5f6a7b"}, texts=lambda doc_ids: texts).difference
    "the prompt of document 7 is 0a1b2c3d in the bank and 4e5f6a7b in the run, from character 4
    on '2' and '3'"
    >>> compare_prompts({}, {7: "4e5f6a7b"}).doubt
    'prompts unknown: the bank does not state them, so it is not verified that they are the same'
    """
    changed, n_compared = differing(theirs, ours)
    # One document shows what differs; the number of others, whether it is the template.
    if changed:
        text_pairs = texts(changed)
        doc_id = next((doc_id for doc_id in changed if doc_id in text_pairs), changed[0])
        sides = zip((theirs, ours), names)
        marks = " and ".join(f"{marks[doc_id]} in {name}" for marks, name in sides)
        extent = f"; {len(changed)} of {n_compared} prompts differ" if len(changed) > 1 else ""
        # A setting changes every prompt, a corrected document its own.
        if 1 < len(changed) == n_compared:
            extent += ", as with a chat template, a system prompt or other examples"
        difference = first_difference(*text_pairs[doc_id]) if doc_id in text_pairs else ""
        return PromptComparison(f"the prompt of document {doc_id!r} is {marks}{difference}{extent}")
    n_common = len(theirs.keys() & ours.keys())
    if not n_compared:
        unknown = f"prompts unknown: {_why_not_compared(theirs, ours, names)}"
    elif n_compared < n_common:
        unknown = f"{n_common - n_compared} of {n_common} prompts are unknown"
    else:
        return PromptComparison()
    return PromptComparison(doubt=f"{unknown}, so it is not verified that they are the same")


def _why_not_compared(theirs: Marks, ours: Marks, names: tuple[str, str]) -> str:
    """Say why no mark of one side can be compared with one of the other."""
    for marks, name in zip((theirs, ours), names):
        if not any(marks.values()):
            return f"{name} does not state them"
    if not theirs.keys() & ours.keys():
        return f"{names[0]} and {names[1]} state those of other documents"
    written = any(str(mark).startswith(WRITTEN) for mark in theirs.values())
    side = names[0] if written else names[1]
    return f"{side} knows them only as another chat template wrote them"


def first_difference(theirs: str, ours: str) -> str:
    """Say from which character on two prompts differ, in words that follow what they are."""
    # Of two texts one may be the beginning of the other.
    position = next(
        (n for n, (their, our) in enumerate(zip(theirs, ours)) if their != our),
        min(len(theirs), len(ours)),
    )
    continuations = [
        visible_line(short(repr(text[position:]), _MAX_SHOWN)) for text in (theirs, ours)
    ]
    return f", from character {position + 1} on {' and '.join(continuations)}"
