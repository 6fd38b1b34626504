"""Past replies of a judge, in a file that several runs may share."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from threading import Lock
from typing import Any

from ...errors import UsageError


class ReplyCache:
    """Replies by the question that was put; lines of JSON, only ever appended to.

    Parameters
    ----------
    path : Path or None
        None keeps them for this process only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = Lock()
        self._replies: dict[str, str] = {}
        if path is not None and path.exists():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    entry = json.loads(line)
                    self._replies[entry["key"]] = entry["reply"]
                except (json.JSONDecodeError, KeyError, TypeError):
                    # The last line of a run that was killed; a new one is asked for.
                    if number == 1:
                        raise UsageError(f"{path} is not a judge's cache; name another") from None

    @staticmethod
    def key(*parts: Any) -> str:
        """Hash of whatever the reply depends on: judge, settings, conversation."""
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def get(self, key: str) -> str | None:
        """The reply to a question, None if it was never put."""
        with self._lock:
            return self._replies.get(key)

    def put(self, key: str, reply: str, model: str) -> None:
        """Remember a reply."""
        with self._lock:
            self._replies[key] = reply
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                line = json.dumps({"key": key, "model": model, "reply": reply}, ensure_ascii=False)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
