"""Banks by name on the Hugging Face hub: ``hub:owner/name[@revision]``.

A bank is the file ``bank.json`` of a data set repository, a suite its ``suite.json`` with the files
that it names; the page is ``README.md``. huggingface_hub caches what was fetched; the bank's
checksum is verified as for any file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from ..bank import SuiteBank, is_suite
from ..bank.suite import NAME as SUITE
from ..errors import BankError, UsageError
from ..upkeep.words import TAGS, page_of

FILE = "bank.json"
_LISTED, _PATIENCE = 100, 10.0  # banks, seconds
#: Files of a data set that readers of logs look at.
_LOGS = ["*.json", "*.jsonl", "*.json.gz", "*.jsonl.gz", "*.parquet", "*.csv"]
_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


def fetch(name: str) -> Path:
    """Fetch a bank, or the folder of a suite; return the local copy.

    Parameters
    ----------
    name : str
        ``owner/name`` or ``owner/name@revision``; a revision is a branch, a tag or a commit.

    Raises
    ------
    BankError
        If the name is invalid, there is no such bank, or the hub does not answer and nothing is
        cached.
    """
    repo, revision = _parts(name)
    with library(f"hub:{repo}: the bank cannot be fetched") as (hub, place):
        try:
            return Path(hub.hf_hub_download(repo, FILE, revision=revision, **place))
        except hub.errors.EntryNotFoundError:
            folder = data_set(f"hub:{name}")
    if not is_suite(folder):
        raise BankError(f"hub:{name}: it holds neither {FILE} nor {SUITE}")
    return folder


def data_set(name: str) -> Path:
    """Fetch a data set's logs; return the cached copy.

    Raises
    ------
    BankError
        If it cannot be fetched.
    """
    repo, revision = _parts(name)
    with library(f"{name}: the data set cannot be fetched") as (hub, place):
        logs = hub.snapshot_download(repo, revision=revision, allow_patterns=_LOGS, **place)
        return Path(logs)


def push(path: str | Path, name: str, licence: str | None = None, *, private: bool = False) -> str:
    """Put a bank, or a suite, and its page on the hub.

    Parameters
    ----------
    path : path
        File of the bank, or folder of the suite.
    name : str
        ``owner/name``.
    licence : str, optional
    private : bool, optional

    Returns
    -------
    str
        The name by which others fetch exactly this bank.

    Raises
    ------
    BankError
        If the file is not a bank, or the hub refuses it.
    """
    repo = repository_of(name)
    suite, source = SuiteBank.load(path), Path(path)
    uploads = {"README.md": page_of(suite, licence).encode()}
    if source.is_dir():
        files = [*SuiteBank.files(source).values(), source / SUITE]
        uploads |= {file.name: file.read_bytes() for file in files}
    else:
        uploads[FILE] = source.read_bytes()
    hashes = [bank.short_hash for _, _, bank in suite.banks()]
    message = f"Item bank {hashes[0]}" if len(hashes) == 1 else f"{len(hashes)} item banks"
    with library(f"hub:{repo}: the bank cannot be pushed") as (hub, place):
        api = hub.HfApi(endpoint=place.pop("endpoint"))
        api.create_repo(repo, private=private, exist_ok=True, **place)
        for where, what in uploads.items():
            commit = api.upload_file(
                path_or_fileobj=what,
                path_in_repo=where,
                repo_id=repo,
                commit_message=message,
                **place,
            )
        return f"hub:{repo}@{commit.oid}"


def names() -> list[str]:
    """Return the names of the banks on the hub, those changed last first, 100 at most.

    Raises
    ------
    BankError
        If the hub does not answer.
    """
    with library("the hub's banks cannot be listed") as (hub, place):
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE:
            raise OSError("HF_HUB_OFFLINE is set")
        tagged = urlencode({"filter": TAGS, "sort": "lastModified", "limit": _LISTED}, doseq=True)
        url = f"{place['endpoint'] or constants.ENDPOINT}/api/datasets?{tagged}"
        token = hub.get_token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # The library would ask five times, with pauses, before it gives up.
        with urlopen(Request(url, headers=headers), timeout=_PATIENCE) as page:
            return [f"hub:{data_set['id']}" for data_set in json.load(page)]


def repository_of(name: str) -> str:
    """Return the ``owner/name`` to which a bank is pushed.

    Raises
    ------
    BankError
        If the name is none of a repository.
    UsageError
        If it names a revision.
    """
    repo, revision = _parts(name)
    if revision is not None:
        raise UsageError(f"{name}: a bank is pushed to a repository, not to a revision")
    return repo


def _parts(name: str) -> tuple[str, str | None]:
    name = name.removeprefix("hub:")
    match = _NAME.fullmatch(name)
    if match is None:
        raise BankError(f"hub:{name}: a bank on the hub is named owner/name or owner/name@revision")
    return match["repo"], match["revision"]


@contextmanager
def library(failure: str) -> Iterator[tuple[Any, dict[str, object]]]:
    """Yield the hub's library and the place of data sets; its errors become `failure`.

    So do those that it raises where an answer of the hub has another form than it expects.
    """
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise BankError("banks by name need huggingface_hub: pip install huggingface_hub") from None
    try:
        yield (
            huggingface_hub,
            {"repo_type": "dataset", "endpoint": os.environ.get("HF_ENDPOINT")},
        )
    except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BankError(f"{failure} ({reason})") from None
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = f"an answer of another form than the hub's: {type(error).__name__} {error}"
        raise BankError(f"{failure} ({' '.join(reason.split())[:200]})") from error
