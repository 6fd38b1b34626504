"""Banks by name, from a hub on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import BankError
from lm_eval_ccat.testing.methods import example_table

huggingface_hub = pytest.importorskip("huggingface_hub")
COMMIT = "c" * 40


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a fetch and a push of small files need."""

    files: dict[str, bytes] = {}  # noqa: RUF012  shared by the requests of one test
    sets: dict[str, dict[str, bytes]] = {}  # noqa: RUF012  data sets by name, their files by path
    asked: list[str] = []  # noqa: RUF012  paths

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        self.asked.append(self.path)
        for name, files in self.sets.items():
            if self.path.startswith(f"/api/datasets/{name}/revision/"):
                siblings = [{"rfilename": path} for path in files]
                reply = {"id": name, "sha": COMMIT, "siblings": siblings}
                return self.answer(200, json.dumps(reply).encode(), Content_Type="application/json")
            if self.path.startswith(f"/api/datasets/{name}/tree/"):
                found = [
                    {"type": "file", "path": path, "size": len(content), "oid": "0" * 40}
                    for path, content in files.items()
                ]
                return self.answer(200, json.dumps(found).encode(), Content_Type="application/json")
            if self.path.startswith(f"/datasets/{name}/resolve/{COMMIT}/"):
                content = files[unquote(self.path.partition(f"{COMMIT}/")[2])]
                etag = hashlib.sha1(content).hexdigest()
                return self.answer(200, content, ETag=f'"{etag}"', X_Repo_Commit=COMMIT)
        content = self.files.get(self.path.rsplit("/", 1)[-1])
        if content is None or "/resolve/" not in self.path:
            return self.answer(404, b"{}", X_Error_Code="EntryNotFound")
        etag = hashlib.sha1(content).hexdigest()
        return self.answer(200, content, ETag=f'"{etag}"', X_Repo_Commit=COMMIT)

    do_HEAD = do_GET

    @property
    def here(self):
        return f"http://{self.headers['Host']}"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/preupload/" in self.path:
            wanted = [f["path"] for f in json.loads(body)["files"]]
            reply = {
                "files": [
                    {"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in wanted
                ]
            }
        elif "/commit/" in self.path:
            for line in body.decode().splitlines():
                record = json.loads(line)
                if record["key"] == "file":
                    value = record["value"]
                    self.files[value["path"]] = base64.b64decode(value["content"])
            reply = {
                "commitUrl": f"{self.here}/datasets/o/n/commit/{COMMIT}",
                "commitOid": COMMIT,
                "pullRequestUrl": None,
            }
        else:
            reply = {"url": f"{self.here}/datasets/o/n", "warnings": [], "errors": []}
        return self.answer(200, json.dumps(reply).encode(), Content_Type="application/json")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Hub.files.clear()
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


def test_a_bank_is_pushed_and_used_by_its_name(hub, tmp_path, capsys, monkeypatch):
    bank = calibrate(example_table(), "paper")
    bank.save(tmp_path / "b.bank.json")
    push = ["bank", "push", str(tmp_path / "b.bank.json"), "hub:o/n", "--license", "cc0-1.0"]
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    assert main(push) == 3 and not hub.files
    assert "the names of 12 models" in capsys.readouterr().out
    assert main([*push, "--yes"]) == 0
    assert f"--bank hub:o/n@{COMMIT}" in capsys.readouterr().out
    assert "license: cc0-1.0" in hub.files["README.md"].decode()
    assert ItemBank.load("hub:o/n").sha256 == bank.sha256
    assert "/resolve/main/" in hub.asked[-1]
    assert ItemBank.load("hub:o/n@v1").sha256 == bank.sha256
    assert "/resolve/v1/" in hub.asked[-1]
    assert main(["bank", "show", f"hub:o/n@{COMMIT}"]) == 0
    hub.files.clear()
    SuiteBank({"t": bank, "u": bank}).save(tmp_path / "suite")
    push[2:4] = str(tmp_path / "suite"), "hub:o/s"
    assert main([*push, "--yes"]) == 0
    assert sorted(hub.files) == ["README.md", "suite.json", "t.toy.bank.json", "u.toy.bank.json"]
    hub.sets["o/s"] = dict(hub.files)
    assert list(SuiteBank.load("hub:o/s")) == ["t", "u"]


def test_what_is_not_there_or_was_changed_is_refused_in_one_line(hub, tmp_path):
    for name in ("hub:o/n", "hub:just_a_name", "hub:o/n@a b"):
        with pytest.raises(BankError, match="hub:") as error:
            ItemBank.load(name)
        assert "\n" not in str(error.value)
    calibrate(example_table(), "paper").save(tmp_path / "b.bank.json")
    text = (tmp_path / "b.bank.json").read_text()
    hub.files["bank.json"] = text.replace("m03", "m99").encode()
    with pytest.raises(BankError, match="does not match its checksum"):
        ItemBank.load("hub:o/n")


def details(model: str, right: list[bool]) -> dict[str, bytes]:
    """A model's results and samples, as the second Open LLM Leaderboard publishes them."""
    date = "2024-06-01T00-00-00.000000"
    rows = [
        {"doc_id": i, "doc": {"q": str(i)}, "target": "x", "resps": [["x"]],
         "filtered_resps": ["x"], "doc_hash": f"{i:064d}", "acc": float(r)}
        for i, r in enumerate(right)
    ]  # fmt: skip
    results = {
        "results": {"t": {"acc,none": sum(right) / len(right)}}, "model_name": model,
        "configs": {"t": {"metric_list": [{"metric": "acc", "aggregation": "mean"}]}},
        "n-samples": {"t": {"original": len(right), "effective": len(right)}},
    }  # fmt: skip
    folder = model.replace("/", "__")
    text = "\n".join(map(json.dumps, rows)) + "\n"
    return {
        f"{folder}/results_{date}.json": json.dumps(results).encode(),
        f"{folder}/samples_t_{date}.jsonl": text.encode(),
        "README.md": b"not fetched",
    }


def test_banks_are_built_from_data_sets_on_the_hub(hub, tmp_path, capsys):
    rng = np.random.default_rng(0)
    ease = rng.normal(size=40)
    for j in range(6):
        right = (rng.random(40) < 1 / (1 + np.exp(-(j - 2.5) - ease))).tolist()
        hub.sets[f"board/m{j}-details"] = details(f"org/m{j}", right)
    names = [f"hub:board/m{j}-details" for j in range(6)]
    out = str(tmp_path / "board")
    assert main(["calibrate", *names, "--metric", "*", "--method", "paper", "-o", out]) == 0
    assert "t acc" in capsys.readouterr().out
    [bank] = SuiteBank.load(out)["t"].values()
    assert bank.n_items == 40 and set(bank.models) == {f"org/m{j}" for j in range(6)}
    command = ["calibrate", "hub:board/none", "-o", out]
    assert main(command) == 1
    assert "hub:board/none: the data set cannot be fetched" in capsys.readouterr().err
