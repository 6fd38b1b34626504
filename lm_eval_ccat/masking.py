"""Mask credentials by their value wherever they appear.

A key arrives in many ways (``model_args``, a URL, a header, the environment) and comes back in
more (a server's error, a log line, a traceback). So the values are remembered once, when a
configuration is read, and masked in everything that is written or printed.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import html
import json
import logging
import os
import re
import shlex
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from .files import replace_bytes

MASK = "***"
#: Values shorter than this are masked where they are given but not searched for elsewhere, as
#: ordinary text is full of them (`key: none`, `token: x`).
SHORTEST = 6
#: Names of credentials; `tokenizer`, `tokenized_requests`, `max_tokens` and `keywords` are not.
_NAME = re.compile(
    r"(?:^|_)(?:token|key|secret|passwd|password|passphrase|apikey|auth|authorization|"
    r"credentials?|bearer|cookie|headers?)(?:_|$)"
)
#: Names of credentials or of ordinary settings (`norm_pass: first`, `n_pass: 3`).
_PERHAPS = re.compile(r"(?:^|_)(?:pwd|pat|pass)$")
_WORD = re.compile(r"[a-z_]*")
#: Tokens of a tokenizer and ordinary headers, whose names are like those of credentials.
_HARMLESS = re.compile(r"(?:^|_)(?:eos|bos|pad|unk)_token$|^(?:content_type|accept.*|user_agent)$")
#: ``user:password`` of a URL, what a URL asks for, and how a header names its kind of credential.
_USERINFO = re.compile(r"(?<=://)([^/@\s]+)(?=@)")
_QUERY = re.compile(r"[?&]([\w-]+)=([^&#\s]+)")
_SCHEME = re.compile(r"^(?:bearer|basic|token|digest)\s+", re.IGNORECASE)
#: A text or a number in JSON.
_TEXT_OR_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')
#: An argument, as in ``a=b,c="d e"``.
_PAIR = re.compile(r"([\w-]+)=(\"[^\"]*\"|'[^']*'|[^,\s]+)")

_lock = threading.Lock()
_known: set[str] = set()
_pattern: re.Pattern[str] | None = None
_forms_in_json: tuple[str, ...] = ()


@functools.lru_cache(maxsize=4096)  # every environment variable is looked at for every command
def is_secret_name(name: str) -> bool:
    """Whether an argument of this name holds a credential.

    Examples
    --------
    >>> [is_secret_name(n) for n in ("api-key", "auth_token", "tokenizer", "max_tokens", "headers")]
    [True, True, False, False, True]
    """
    plain = _plain_name(name)
    named = _NAME.search(plain) or _PERHAPS.search(plain)
    return bool(named) and not _HARMLESS.search(plain)


def _is_secret(name: Any, value: Any) -> bool:
    """Whether a setting holds a credential, by its name and, if that is ambiguous, by its value.

    >>> _is_secret("db_pass", "x7-Kq"), _is_secret("norm_pass", "acc_norm"), _is_secret("pass", 3)
    (True, False, False)
    """
    sure = _NAME.search(_plain_name(name))
    return is_secret_name(name) and bool(sure or not _is_ordinary(value))


def _is_ordinary(value: Any) -> bool:
    """Whether a value is a number, a truth value, a plain word, or a list of these."""
    if isinstance(value, (list, tuple, set)):
        return all(map(_is_ordinary, value))
    return isinstance(value, (int, float)) or bool(
        isinstance(value, str) and _WORD.fullmatch(value)
    )


def _plain_name(name: Any) -> str:
    """Return a name in lower case, its words joined by underscores: ``api_key`` of ``apiKey``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[-.\s]+", "_", str(name)).lower()


def remember(values: Any) -> None:
    """Search a configuration, however nested, for credentials and mask them from now on."""
    credentials = {
        secret for secret in _secrets(values) if len(secret) >= SHORTEST and secret != MASK
    }
    with _lock:
        # The pattern of all forms is slow to make.
        if credentials <= _known:
            return
        _known.update(credentials)
        _compile()
        _mask_logs()


def remember_credentials(*values: Any) -> None:
    """Mask the credentials in values, and environment variables named like credentials."""
    # The path of a file with a credential is none itself.
    named = {
        name: value
        for name, value in os.environ.items()
        if is_secret_name(name) and not os.path.exists(value)
    }
    remember([named, *values])


def _mask_logs() -> None:
    """Mask log records as they are created, whichever library formats them."""
    factory = logging.getLogRecordFactory()
    if getattr(factory, "masks", False):
        return

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        log_record = factory(*args, **kwargs)
        log_record.msg, log_record.args = mask_values(log_record.msg), mask_values(log_record.args)
        return log_record

    record.masks = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(record)


def forget() -> None:
    """Forget all credentials (for a test, or a process that continues another user's run)."""
    global _pattern, _forms_in_json
    with _lock:
        _known.clear()
        _pattern, _forms_in_json = None, ()


def _compile() -> None:
    """Make the pattern of all forms in which a text may hold a known credential.

    As it is, escaped once or twice for JSON or as Python prints it, and as URLs, HTML and shells
    have it.
    """
    global _pattern, _forms_in_json
    forms = set(_known)
    for value in _known:
        escaped = json.dumps(value)[1:-1]
        forms |= {
            escaped, json.dumps(escaped)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1],
            repr(value)[1:-1], quote(value, safe=""), quote(value, safe="/"), quote_plus(value),
            html.escape(value), shlex.quote(value).strip("'"),
        }  # fmt: skip
    # Longest first, so that "key-2" is masked whole where "key" is known, too.
    _pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
    _forms_in_json = tuple(json.dumps(form, ensure_ascii=False)[1:-1] for form in forms)


def mask_text(text: str) -> str:
    """Mask the credentials known so far, and ``user:pass@`` in URLs, in a text."""
    return str(mask_values(_USERINFO.sub(MASK, text) if "://" in text else text))


def mask(value: Any) -> Any:
    """Mask credentials in JSON values: by the keys of mappings, and by value everywhere.

    Examples
    --------
    >>> mask({"model": "m", "api-key": "sk-1", "url": "https://me:pw@host/v1", "n": 3})
    {'model': 'm', 'api-key': '***', 'url': 'https://***@host/v1', 'n': 3}
    """
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, Mapping):
        return {
            mask(key): MASK if _is_secret(key, entry) and _filled(entry) else mask(entry)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [mask(entry) for entry in value]
    return value


def in_json(text: str) -> bool:
    """Whether JSON (of ``ensure_ascii=False``) holds a credential that `mask_values` would mask."""
    return any(form in text for form in _forms_in_json)


def mask_values(value: Any) -> Any:
    """Mask by known values alone, unlike :func:`mask`: keys and URLs in answers mean nothing."""
    if _pattern is None:
        return value
    if isinstance(value, str):
        return _pattern.sub(MASK, value)
    if isinstance(value, dict):
        return {mask_values(key): mask_values(entry) for key, entry in value.items()}
    # A list, a tuple, or an `Item`, which is made of its parts as a tuple is; a named tuple is not.
    if type(value) is list or getattr(type(value), "__new__", None) is tuple.__new__:
        return type(value)(map(mask_values, value))
    return value


def mask_entries(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Mask the values of a mapping as `mask_values` does, and leave its keys."""
    if _pattern is None:
        return values
    return {key: mask_values(value) for key, value in values.items()}


def _masked_part(part: str) -> str:
    """Return a text, which may be JSON, without credentials."""
    assert _pattern is not None
    if not _pattern.search(part):
        return part
    try:
        json.loads(part)
    except ValueError:
        return _pattern.sub(MASK, part)
    return _TEXT_OR_NUMBER.sub(_masked_token, part)


def _masked_token(token: re.Match[str]) -> str:
    """Return a text or a number of JSON without credentials."""
    assert _pattern is not None
    if token[0].startswith('"'):
        return _pattern.sub(MASK, token[0])
    return f'"{MASK}"' if _pattern.fullmatch(token[0]) else token[0]


def _filled(value: Any) -> bool:
    """Whether a setting of a credential's name states one: true, false and "" state none."""
    return value is not None and not isinstance(value, bool) and value != ""


def _secrets(value: Any, named: bool = False) -> Iterable[str]:
    """Yield the credentials in a value; `named` says that its name is that of a credential."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            harmless = _HARMLESS.search(_plain_name(name))
            yield from _secrets(inner, (named or _is_secret(name, inner)) and not harmless)
    elif isinstance(value, (list, tuple, set)):
        for inner in value:
            yield from _secrets(inner, named)
    elif isinstance(value, str):
        if named:
            yield from _forms_of_credential(value)
        yield from _secrets_in_addresses(value)
        yield from _secrets_in_pairs(value)
        # --model_args and --metadata take JSON, too.
        if value.lstrip().startswith(("{", "[")):
            with contextlib.suppress(ValueError):
                yield from _secrets(json.loads(value), named)
    elif named and isinstance(value, int) and not isinstance(value, bool):
        yield str(value)


def _forms_of_credential(text: str) -> Iterable[str]:
    """Yield a credential as it is given, and the parts that a server may repeat."""
    yield text
    yield _SCHEME.sub("", text)
    # The header encodes a user's name and password.
    if text.lower().startswith("basic "):
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            userinfo = base64.b64decode(text[6:], validate=True).decode()
            yield from (userinfo, *userinfo.split(":", 1)[1:])


def _secrets_in_addresses(text: str) -> Iterable[str]:
    """Yield ``user:password`` of each URL in a text, the password, and the header of both."""
    for userinfo in _USERINFO.findall(text):
        yield userinfo
        yield from (unquote(part) for part in userinfo.split(":", 1)[1:])
        # As a server receives it, and may repeat it.
        if ":" in userinfo:
            yield base64.b64encode(unquote(userinfo).encode()).decode()


def _secrets_in_pairs(text: str) -> Iterable[str]:
    """Yield the credentials in a URL's query or in ``a=b,c=d``, which have names as in mappings."""
    for name, value in (*_QUERY.findall(text), *_PAIR.findall(text)):
        unquoted = value.strip("\"'")
        if _is_secret(name, unquoted):
            yield from (value, unquote(value), unquoted)


def mask_file(path: Path) -> None:
    """Mask the credentials known so far in a text file that something else wrote.

    JSON stays JSON: a credential of digits is masked in its texts and as a whole number, not within
    the digits of other numbers.
    """
    if _pattern is None:
        return
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        if not _pattern.search(text):
            return
        parts = text.splitlines(keepends=True) if path.suffix == ".jsonl" else [text]
        masked = "".join(map(_masked_part, parts))
        if masked != text:
            replace_bytes(path, masked.encode("utf-8", "surrogateescape"), private=True)
    except OSError:
        pass  # the file is gone or not ours, so this process did not write it
