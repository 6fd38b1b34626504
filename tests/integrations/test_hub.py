"""Banks by name, from a hub on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import socket
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest
from scores.test_damaged import damaged
from scores.test_harness_logs import rows_of, write_run

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.errors import BankError, CcatError, UsageError
from lm_eval_ccat.fetching import data_set
from lm_eval_ccat.integrations.hub import names, push
from lm_eval_ccat.integrations.log_request import LogRequest
from lm_eval_ccat.integrations.logs import logs_of
from lm_eval_ccat.live.plan import make_plan
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.scores.table import reader_of
from lm_eval_ccat.testing.methods import example_table

huggingface_hub = pytest.importorskip("huggingface_hub")
COMMIT = "c" * 40


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as fetches and a push of small files need."""

    sets: ClassVar[dict[str, dict[str, bytes]]] = {}  # data sets by name, their files by path
    asked: ClassVar[list[str]] = []  # paths
    gated: ClassVar[set[str]] = set()  # names whose bytes need a token that accepted the terms
    private: ClassVar[set[str]] = set()  # names that only a listing with a token shows
    busy: ClassVar[list[int]] = []  # 429 to answer before anything else
    cut: ClassVar[dict[str, int]] = {}  # bytes after which a file's next answer breaks off

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        if not isinstance(body, bytes):
            body, headers = json.dumps(body).encode(), {"Content_Type": "application/json"}
        self.send_response(status)
        for name, value in {**headers, "Content_Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def list_sets(self):
        query = parse_qs(urlsplit(self.path).query)
        names = [n for n in sorted(self.sets) if n.startswith(query["author"][0] + "/")]
        names = [n for n in names if query.get("search", [""])[0] in n]
        start = int(query.get("cursor", ["0"])[-1])
        link = {}
        if start + 2 < len(names):  # two to a page
            address = f"http://{self.headers['Host']}/api/datasets?{urlsplit(self.path).query}"
            link = {"Link": f'<{address}&cursor={start + 2}>; rel="next"'}
        page = [{"id": name, "sha": COMMIT} for name in names[start : start + 2]]
        self.answer(200, json.dumps(page).encode(), Content_Type="application/json", **link)

    def store(self, content):
        """What lies behind a redirect: large files, whole, in part, or broken off."""
        first = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        status = 206 if first else 200
        self.send_response(status)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        most = self.cut.pop(self.path, None)
        if self.command != "HEAD":
            self.wfile.write(content[first:most])
        if most is not None:
            self.close_connection = True

    def do_GET(self):
        self.asked.append(self.path)
        if self.busy:
            return self.answer(self.busy.pop(), b"{}", Retry_After="0")
        if self.path.startswith("/api/datasets?") and "author=" in self.path:
            return self.list_sets()
        if self.path.startswith("/api/datasets?"):
            hidden = set() if self.headers.get("Authorization") else self.private
            tagged = [
                name
                for name, files in self.sets.items()
                if b"- item-bank" in files.get("README.md", b"") and name not in hidden
            ]
            return self.answer(200, [{"id": name} for name in tagged])
        if self.path.startswith("/store/"):
            name, path = unquote(self.path).removeprefix("/store/").split("//")
            return self.store(self.sets[name][path])
        _, name, kind, path = re.fullmatch(
            r"(/api)?/datasets/([^/]+/[^/]+)/(resolve|revision|tree)/[^/?]+/?(.*)", self.path
        ).groups()
        files = self.sets.get(name, {})
        if kind == "resolve":
            content = files.get(unquote(path))
            if content is None:
                return self.answer(404, b"{}", X_Error_Code="EntryNotFound")
            if name in self.gated and not self.headers.get("Authorization"):
                return self.answer(401, b"{}", X_Error_Code="GatedRepo")
            if name in self.gated and "accepted" not in self.headers["Authorization"]:
                return self.answer(403, b"{}", X_Error_Code="GatedRepo")
            etag = f'"{hashlib.sha1(content).hexdigest()}"'
            if len(content) > 4000:
                about = {"X_Linked_Etag": etag, "X_Linked_Size": str(len(content))}
                port = self.headers["Host"].rpartition(":")[2]  # elsewhere, as the hub's storage is
                place = f"http://localhost:{port}/store/{name}//{path}"
                return self.answer(302, b"", Location=place, X_Repo_Commit=COMMIT, **about)
            return self.answer(200, content, ETag=etag, X_Repo_Commit=COMMIT)
        if name not in self.sets:
            return self.answer(404, b"{}", X_Error_Code="RepoNotFound")
        if kind == "tree":
            about = {"type": "file", "oid": "0" * 40}
            return self.answer(200, [{**about, "path": p, "size": len(files[p])} for p in files])
        siblings = [{"rfilename": path} for path in files]
        return self.answer(200, {"id": name, "sha": COMMIT, "siblings": siblings})

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        here = f"http://{self.headers['Host']}/datasets/o/n"
        if "/preupload/" in self.path:
            about = {"uploadMode": "regular", "shouldIgnore": False}
            files = [{**about, "path": file["path"]} for file in json.loads(body)["files"]]
            return self.answer(200, {"files": files})
        if "/commit/" in self.path:
            name = self.path.split("/datasets/")[1].partition("/commit/")[0]
            for record in map(json.loads, body.splitlines()):
                if record["key"] == "file":
                    content = base64.b64decode(record["value"]["content"])
                    self.sets.setdefault(name, {})[record["value"]["path"]] = content
            reply = {"commitUrl": f"{here}/commit/{COMMIT}", "commitOid": COMMIT}
            return self.answer(200, {**reply, "pullRequestUrl": None})
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            # Clients before 1.0 say `private`, later ones `visibility`.
            if asked.get("private") or asked.get("visibility") == "private":
                self.private.add(f"{asked['organization']}/{asked['name']}")
        return self.answer(200, {"url": here, "warnings": [], "errors": []})


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    for state in (Hub.sets, Hub.asked, Hub.gated, Hub.private, Hub.busy, Hub.cut):
        state.clear()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    huggingface_hub.close_session()  # it keeps what it was made with
    yield Hub
    huggingface_hub.close_session()
    server.shutdown()
    server.server_close()


@pytest.mark.long
def test_a_bank_is_pushed_and_used_by_its_name(hub, tmp_path, monkeypatch, ccat):
    bank = calibrate(example_table(), "paper")
    bank.save(tmp_path / "b.bank.json")
    push = ["bank", "push", tmp_path / "b.bank.json", "hub:o/n", "--license", "cc0-1.0"]
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    shown = ccat(*push, code=3).out
    assert not hub.sets
    assert "names and abilities of 12 models" in shown and "goes to hub:o/n under" in shown
    for wrong, why in (("hub:o", "is named owner/name"), ("o/n@main", "not to a revision")):
        said = ccat(*push[:3], wrong, *push[4:], code=(1, 2))
        assert why in said.err and not said.out, "said before the page and the question"
    assert f"--bank hub:o/n@{COMMIT}" in ccat(*push, "--yes").out
    assert "license: cc0-1.0" in hub.sets["o/n"]["README.md"].decode()
    assert ItemBank.load("hub:o/n").sha256 == bank.sha256
    assert "/resolve/main/" in hub.asked[-1]
    assert ItemBank.load("hub:o/n@v1").sha256 == bank.sha256
    assert "/resolve/v1/" in hub.asked[-1]
    ccat("bank", "show", f"hub:o/n@{COMMIT}")
    SuiteBank({"t": bank, "u": bank}).save(tmp_path / "suite")
    push[2:4] = tmp_path / "suite", "hub:o/s"
    ccat(*push, "--yes")
    files = ["README.md", "suite.json", "t.toy.bank.json", "u.toy.bank.json"]
    assert sorted(hub.sets["o/s"]) == files
    assert list(SuiteBank.load("hub:o/s")) == ["t", "u"]
    assert "hub:o/s: 2 banks of 2 tasks" in ccat("bank", "show", "hub:o/s").out
    ccat("bank", "check", tmp_path / "suite", "hub:o/s")
    hub.sets["o/data"] = {"README.md": b"# No bank"}
    shown = ccat("bank", "list", tmp_path).out
    assert shown.split("hub:\n")[1].split() == ["hub:o/n", "hub:o/s"]
    assert "filter=lm-eval-ccat&filter=item-bank" in hub.asked[-1]
    local, public = shown.split("hub:\n")[0].split("public:\n")
    assert f"{tmp_path / 'suite'}: 2 tasks (t, u), toy" in local and "b.bank.json: " in local
    assert "mmlu_pro: 14 tasks" in public and "licence Apache-2.0" in public
    listed = json.loads(ccat("bank", "list", tmp_path, "--json").out)
    assert (
        listed["hub"] == ["hub:o/n", "hub:o/s"] and listed["public"]["mmlu_pro"]["items"] == 11984
    )
    plan = {"task": "no_such_task", "models": [{"model": "hf"}], "bank": "hub:o/s"}
    with pytest.raises(UsageError, match="no_such_task"):
        make_plan(Spec.read(plan))


@pytest.mark.long
def test_a_private_bank_is_seen_by_those_who_may(hub, tmp_path, monkeypatch):
    calibrate(example_table(), "paper").save(tmp_path / "b.bank.json")
    push(tmp_path / "b.bank.json", "hub:o/open")
    push(tmp_path / "b.bank.json", "hub:o/secret", private=True)
    assert hub.private == {"o/secret"}
    assert names() == ["hub:o/open", "hub:o/secret"]
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    assert names() == ["hub:o/open"]


@pytest.mark.long
def test_what_is_not_there_or_was_changed_is_refused_in_one_line(hub, tmp_path):
    for name in ("hub:o/n", "hub:just_a_name", "hub:o/n@a b"):
        with pytest.raises(BankError, match="hub:") as error:
            ItemBank.load(name)
        assert "\n" not in str(error.value)
    hub.sets["o/closed"] = {"samples.jsonl": b"{}"}
    hub.gated.add("o/closed")  # the token has not accepted its terms: 403
    with pytest.raises(BankError, match=r"cannot be fetched.*HF_TOKEN where a token is needed"):
        data_set("hub:o/closed")
    calibrate(example_table(), "paper").save(tmp_path / "b.bank.json")
    text = (tmp_path / "b.bank.json").read_text()
    hub.sets["o/n"] = {"bank.json": text.replace("m03", "m99").encode()}
    with pytest.raises(BankError, match="does not match its checksum"):
        ItemBank.load("hub:o/n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("calibrate", "hub:o/n", "--metric", "acc", "-o", "made"), 1),
        (("calibrate", "hub:o", "--task", "t", "--metric", "acc", "-o", "made"), 1),
        (("bank", "push", "b.bank.json", "hub:o/n", "--license", "mit", "--yes"), 1),
        (("bank", "show", "hub:o/n"), 1),
        (("bank", "list"), 0),
    ],
)
def test_a_hub_that_nobody_reaches_is_named_with_what_to_do(
    hub, words, code, tmp_path, monkeypatch, ccat
):
    with socket.socket() as taken:  # bound, and never listened to: connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setattr("time.sleep", lambda seconds: None)  # the library asks five times
        monkeypatch.chdir(tmp_path)
        calibrate(example_table(), "paper").save("b.bank.json")
        said = ccat(*words, code=code)
    line = (said.err or said.out).splitlines()[-1]
    assert f"check the connection to {address}" in line and "refused" in line
    assert "Error: [" not in line.partition("(")[0]  # no exception of the library's


@pytest.mark.long
def test_banks_are_built_from_data_sets_on_the_hub(hub, tmp_path, ccat):
    rng, names = np.random.default_rng(0), []
    ease = rng.normal(size=40)
    for j in range(6):
        right = rng.random(40) < 1 / (1 + np.exp(-(j - 2.5) - ease))
        logs = tmp_path / f"m{j}"
        write_run(logs, f"org/m{j}", rows_of(right, "acc"), task="t")
        files = [path for path in logs.rglob("*") if path.is_file()]
        hub.sets[f"board/m{j}-details"] = {
            "README.md": b"not fetched",
            **{path.relative_to(logs).as_posix(): path.read_bytes() for path in files},
        }
        names.append(f"hub:board/m{j}-details")
    out = tmp_path / "board"
    assert "t acc" in ccat("calibrate", *names, "--metric", "*", "--method", "paper", "-o", out).out
    [bank] = SuiteBank.load(out)["t"].values()
    assert bank.n_items == 40 and set(bank.models) == {f"org/m{j}" for j in range(6)}
    data_set("hub:board/m0-details@v2")
    assert any("/revision/v2" in path for path in hub.asked)
    err = ccat("calibrate", "hub:board/none", "-o", out, code=1).err
    assert "hub:board/none: the data set cannot be fetched" in err


# -- a board of data sets -------------------------------------------------------------------------

TASK = "leaderboard_musr_murder_mysteries"


@pytest.fixture
def board(hub, tmp_path):
    """Logs of ten models as the second Open LLM Leaderboard published them."""
    rng = np.random.default_rng(0)
    ease = rng.normal(size=40)
    for j in range(10):
        model, family = f"org{j % 2}/{'Llama' if j % 3 else 'Qwen'}-{j}b", f"org{j % 2}__m{j}"
        files: dict[str, bytes] = {"README.md": b"no log"}
        for day, task in ((1, TASK), (2, TASK), (2, "leaderboard_bbh_snarks")):
            right = rng.random(40) < 1 / (1 + np.exp(-(0.5 * j - 2.5) - ease))
            rows = rows_of(right, "acc_norm")
            rng.shuffle(rows)  # in order of completion
            logs = tmp_path / f"{day}{task}{j}"
            sample = write_run(logs, model, rows, task=task, day=day)
            ending = ".json" if j % 2 else ".jsonl"
            for file in sample.parent.iterdir():
                name = file.name if file.name.startswith("results") else file.stem + ending
                if name.startswith("results") and f"{family}/{name}" in files:
                    merged = json.loads(files[f"{family}/{name}"])
                    for key, value in json.loads(file.read_bytes()).items():
                        if isinstance(value, dict):
                            merged[key] = {**merged.get(key, {}), **value}
                    files[f"{family}/{name}"] = json.dumps(merged).encode()
                else:
                    files[f"{family}/{name}"] = file.read_bytes()
        hub.sets[f"lab/{model.replace('/', '__')}-details"] = files
        hub.gated.add(f"lab/{model.replace('/', '__')}-details")
    hub.sets["lab/contents"] = {"README.md": b"no logs of a model"}
    return hub


def fetch_board(ccat, tmp_path, *more, code=0, name="hub:lab"):
    bank = tmp_path / "b.bank.json"
    call = ["calibrate", name, "--task", TASK, "--metric", "acc_norm", "--method", "paper"]
    return ccat(*call, "-o", bank, *more, code=code), bank


@pytest.mark.long
def test_a_bank_is_made_of_a_board_of_data_sets(board, tmp_path, ccat, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_accepted")
    board.busy.append(429)
    large = next(path for files in board.sets.values() for path in files if "/samples" in path)
    owner = next(name for name, files in board.sets.items() if large in files)
    board.cut[f"/store/{owner}//{large}"] = 1000
    said, file = fetch_board(ccat, tmp_path, "--models", "6")
    assert "hub:lab: 6 of 10 models (2 families" in said.err and "MB of samples" in said.err
    bank = ItemBank.load(file)
    assert bank.n_items == 40 and len(bank.models) == 6 and bank.task == TASK
    for alike in ({"org0/Qwen-0b", "org1/Llama-1b"}, {"org0/Llama-8b", "org1/Qwen-9b"}):
        assert alike & {*bank.models}, "the weakest and the strongest"
    assert all("2026-01-02" in source for source in bank.provenance["sources"]), "the newest run"
    assert all(f"/snapshots/{COMMIT}/" in source for source in bank.provenance["sources"])
    fetched = {path for path in board.asked if "/samples" in path}
    assert not any("bbh" in path or "2026-01-01" in path for path in fetched)
    assert not any("README" in path for path in board.asked)
    board.asked.clear()
    fetch_board(ccat, tmp_path, "--models", "6")
    assert not any(path.startswith("/store/") for path in board.asked), "what is cached stays"
    _, older = fetch_board(ccat, tmp_path, name="hub:lab@2026-01-01")
    bank = ItemBank.load(older)
    assert len(bank.models) == 10
    assert all("2026-01-01" in source for source in bank.provenance["sources"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("token", "more", "words"),
    [
        ("", (), "is gated: with a free account accept its terms at https://huggingface.co/"),
        ("hf_other", (), "is gated: with a free account accept its terms"),
        ("hf_accepted", ("--max_gb", "0.0001"), "GB are more than --max_gb 0.0001: take about"),
        ("hf_accepted", ("--max_gb", "1e-9"), "GB are more than --max_gb 1e-09: allow more"),
        ("hf_accepted", ("--models", "1"), "--models: a bank takes at least 2"),
        ("hf_accepted", ("--task", "no_such_task"), "no samples of no_such_task in the logs of 10"),
    ],
)
def test_what_a_board_refuses_is_one_line_with_a_remedy(
    board, tmp_path, ccat, monkeypatch, token, more, words
):
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    else:
        monkeypatch.delenv("HF_TOKEN")
    said, bank = fetch_board(ccat, tmp_path, *more, code=(1, 2))
    assert words in said.err.splitlines()[-1] and not bank.exists()
    for fewer in re.findall(r"take about (\d+) --models", said.err):
        assert int(fewer) < 10


def with_damage(sound, chance):
    """The hub's ``answer``, which damages one of the next."""
    left = [chance.randrange(12)]

    def answer(self, status, body=b"", **headers):
        left[0] -= 1
        if left[0] == -1:
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            body = damaged(text, "answer.json", chance)
            headers.setdefault("Content_Type", "application/json")
        return sound(self, status, body, **headers)

    return answer


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 150), marks=pytest.mark.slow)])
def test_a_damaged_answer_of_the_hub_is_refused_in_one_line(board, tmp_path, monkeypatch, seeds):
    """One answer of a listing, a tree, a file or its head, each time another."""
    monkeypatch.setenv("HF_TOKEN", "hf_accepted")
    sound = board.answer
    for seed in seeds:
        monkeypatch.setattr(board, "answer", with_damage(sound, random.Random(f"hub {seed}")))
        cache = tmp_path / f"cache{seed}"
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
        try:
            if seed % 4 == 3:
                names()
            else:
                with logs_of(["hub:lab"], LogRequest(tasks=(TASK,), models=2)) as folder:
                    for outcome in reader_of(folder).outcomes(folder)[:2]:
                        ScoreTable.read(folder, metric=outcome.metric, task=outcome.task)
        except CcatError as error:
            assert str(error) and str(error).count("\n") <= 1, seed


@pytest.mark.long
def test_a_hub_that_limits_requests_is_told_from_one_that_nobody_reaches(
    board, tmp_path, ccat, monkeypatch
):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    board.busy.extend([429] * 40)
    said = fetch_board(ccat, tmp_path, code=1)[0].err.splitlines()[-1]
    assert "limits requests: wait some minutes" in said and "check the connection" not in said


def test_boards_that_are_none(hub, tmp_path, ccat):
    assert (
        "no data set <organisation>__<model>-details" in fetch_board(ccat, tmp_path, code=2)[0].err
    )
    bank = tmp_path / "b"
    assert "name the task (--task)" in ccat("calibrate", "hub:lab", "-o", bank, code=2).err


# -- archives -------------------------------------------------------------------------------------


def archive_of(folder, file):
    root = "logs-main"
    if file.suffix == ".zip":
        with zipfile.ZipFile(file, "w") as packed:
            for path in folder.rglob("*"):
                packed.write(path, f"{root}/{path.relative_to(folder)}")
    else:
        with tarfile.open(file, "w:gz") as packed:
            packed.add(folder, root)


@pytest.mark.long
def test_an_archive_of_logs_and_a_repository_on_github(tmp_path, ccat, monkeypatch):
    rng = np.random.default_rng(0)
    for j in range(8):
        write_run(tmp_path / "logs", f"m{j}", rows_of(rng.random(30) < 0.1 + 0.1 * j, "acc"))
    call = ["--method", "paper", "-o", tmp_path / "b.json"]
    archives = [tmp_path / "logs.zip", tmp_path / "logs.tar.gz"]
    for file in archives:
        archive_of(tmp_path / "logs", file)
        ccat("calibrate", file, *call)
        assert ItemBank.load(tmp_path / "b.json").n_items == 30
    ccat("calibrate", file, "--models", "4", *call)
    assert len(ItemBank.load(tmp_path / "b.json").models) == 4
    address = f"{archives[1].as_uri()}#{{repo}}@{{ref}}"
    monkeypatch.setattr("lm_eval_ccat.integrations.logs._ARCHIVE", address)
    ccat("calibrate", "github:o/logs@v1", *call)
    assert (
        "more than --max_gb"
        in ccat("calibrate", "github:o/logs", "--max_gb", "1e-7", *call, code=2).err
    )


def test_an_archive_leaves_its_folder_in_no_way(tmp_path, ccat):
    call = ["-o", tmp_path / "b.json"]
    with zipfile.ZipFile(tmp_path / "out.zip", "w") as packed:
        packed.writestr("a/../../out.jsonl", "{}")
    assert "outside itself" in ccat("calibrate", tmp_path / "out.zip", *call, code=2).err
    (tmp_path / "bad.tar.gz").write_bytes(b"no archive")
    assert "not a readable archive" in ccat("calibrate", tmp_path / "bad.tar.gz", *call, code=1).err
    with zipfile.ZipFile(tmp_path / "large.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("zeros.json", b"0" * 10**6)
    large = ccat("calibrate", tmp_path / "large.zip", "--max_gb", "0.0001", *call, code=2)
    assert "unpacks to more than" in large.err
