"""Banks on the Hugging Face hub: pushed with a page, and listed.

A bank is the file ``bank.json`` of a data set repository, a suite its ``suite.json`` with the files
that it names; the page is ``README.md``. `located` of `lm_eval_ccat.bank.file` fetches them by
name.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from ..bank import SuiteBank
from ..bank.file import BANK, SUITE
from ..errors import UsageError
from ..fetching import opened_hub, parts_of
from ..upkeep.words import TAGS, page_of

#: Largest number of banks that are listed.
_MAX_LISTED = 100
#: Seconds that a listing may take.
_PATIENCE = 10.0


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
    # A suite is several files, of which the page describes each bank.
    if source.is_dir():
        files = [*SuiteBank.files(source).values(), source / SUITE]
        uploads |= {file.name: file.read_bytes() for file in files}
    else:
        uploads[BANK] = source.read_bytes()
    hashes = [entry.bank.short_hash for entry in suite.banks()]
    message = f"Item bank {hashes[0]}" if len(hashes) == 1 else f"{len(hashes)} item banks"
    with opened_hub(f"hub:{repo}: the bank cannot be pushed") as hub:
        api = hub.library.HfApi(endpoint=hub.address)
        api.create_repo(repo, private=private, exist_ok=True, repo_type="dataset")
        # The page goes first, so that no bank lies there without its licence.
        for path_in_repo, content in uploads.items():
            commit = api.upload_file(
                path_or_fileobj=content,
                path_in_repo=path_in_repo,
                repo_id=repo,
                commit_message=message,
                repo_type="dataset",
            )
        return f"hub:{repo}@{commit.oid}"


def names() -> list[str]:
    """Return the names of the banks on the hub, those changed last first, 100 at most.

    Raises
    ------
    BankError
        If the hub does not answer.
    """
    with opened_hub("the hub's banks cannot be listed") as hub:
        from huggingface_hub import constants

        # The request below goes round the library, which alone obeys HF_HUB_OFFLINE.
        if constants.HF_HUB_OFFLINE:
            raise OSError("HF_HUB_OFFLINE is set")
        tagged = urlencode(
            {"filter": TAGS, "sort": "lastModified", "limit": _MAX_LISTED}, doseq=True
        )
        url = f"{hub.address}/api/datasets?{tagged}"
        listing = Request(url)
        if token := hub.library.get_token():
            # Not sent on to an address to which this one may redirect.
            listing.add_unredirected_header("Authorization", f"Bearer {token}")
        # The library would ask five times, with pauses, before it gives up.
        with urlopen(listing, timeout=_PATIENCE) as page:
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
    repo, revision = parts_of(name)
    # A revision is what pushing makes.
    if revision is not None:
        raise UsageError(f"{name}: a bank is pushed to a repository, not to a revision")
    return repo
