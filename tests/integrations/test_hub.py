"""Banks by name, from a hub on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote

import numpy as np
import pytest
from scores.test_harness_logs import rows_of, write_run

from lm_eval_ccat import ItemBank, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.live.plan import make_plan
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.testing.methods import example_table

huggingface_hub = pytest.importorskip("huggingface_hub")
COMMIT = "c" * 40


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as fetches and a push of small files need."""

    sets: ClassVar[dict[str, dict[str, bytes]]] = {}  # data sets by name, their files by path
    asked: ClassVar[list[str]] = []  # paths

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

    def do_GET(self):
        self.asked.append(self.path)
        _, name, kind, path = re.fullmatch(
            r"(/api)?/datasets/([^/]+/[^/]+)/(resolve|revision|tree)/[^/?]+/?(.*)", self.path
        ).groups()
        files = self.sets.get(name, {})
        if kind == "resolve":
            content = files.get(unquote(path))
            if content is None:
                return self.answer(404, b"{}", X_Error_Code="EntryNotFound")
            etag = f'"{hashlib.sha1(content).hexdigest()}"'
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
        return self.answer(200, {"url": here, "warnings": [], "errors": []})


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Hub.sets.clear()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    huggingface_hub.close_session()  # it keeps what it was made with
    yield Hub
    huggingface_hub.close_session()
    server.shutdown()
    server.server_close()


def test_a_bank_is_pushed_and_used_by_its_name(hub, tmp_path, monkeypatch, ccat):
    bank = calibrate(example_table(), "paper")
    bank.save(tmp_path / "b.bank.json")
    push = ["bank", "push", tmp_path / "b.bank.json", "hub:o/n", "--license", "cc0-1.0"]
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    shown = ccat(*push, code=3).out
    assert not hub.sets
    assert "the names of 12 models" in shown and "goes to hub:o/n under" in shown
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
    plan = {"task": "no_such_task", "models": [{"model": "hf"}], "bank": "hub:o/s"}
    with pytest.raises(UsageError, match="no_such_task"):
        make_plan(Spec.read(plan))


def test_what_is_not_there_or_was_changed_is_refused_in_one_line(hub, tmp_path):
    for name in ("hub:o/n", "hub:just_a_name", "hub:o/n@a b"):
        with pytest.raises(BankError, match="hub:") as error:
            ItemBank.load(name)
        assert "\n" not in str(error.value)
    calibrate(example_table(), "paper").save(tmp_path / "b.bank.json")
    text = (tmp_path / "b.bank.json").read_text()
    hub.sets["o/n"] = {"bank.json": text.replace("m03", "m99").encode()}
    with pytest.raises(BankError, match="does not match its checksum"):
        ItemBank.load("hub:o/n")


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
    err = ccat("calibrate", "hub:board/none", "-o", out, code=1).err
    assert "hub:board/none: the data set cannot be fetched" in err
