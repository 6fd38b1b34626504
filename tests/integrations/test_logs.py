"""Which models, runs, scores and files are taken of logs by name."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest

from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.integrations.log_request import LogRequest
from lm_eval_ccat.integrations.logs import _download, _newest_run, _score_of, _unpack


def test_the_newest_run_of_a_data_set_that_has_the_task_counts():
    days = ("2024-06-01T00-00-00.000000", "2024-09-01T00-00-00.000000")
    paths = [f"m/{kind}_{day}.{end}" for day in days
             for kind, end in (("samples_arc", "jsonl"), ("results", "json"))]  # fmt: skip
    paths.append("m/samples_other_2024-12-01T00-00-00.000000.jsonl")
    tree = [SimpleNamespace(path=path, size=7) for path in paths]
    api = SimpleNamespace(list_repo_tree=lambda *_, **__: tree)
    newest = _newest_run(api, "o/r", ["arc*"], "")
    assert newest.results == paths[3] and newest.samples == {paths[2]: 7}
    assert _newest_run(api, "o/r", ["arc*"], "2024-06").results == paths[1]
    assert _newest_run(api, "o/r", ["arc*"], "2023") is None


def test_the_metric_is_found_without_its_filter_and_averaged_over_tasks(tmp_path):
    blocks = {
        task: {"alias": task, "acc,none": 0.1, "exact_match,flexible": score}
        for task, score in (("a_1", 0.25), ("a_2", 0.75), ("b", 0.9))
    }
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"results": blocks}))
    assert _score_of(file, LogRequest(("a_*",), "exact_match")) == 0.5
    assert _score_of(file, LogRequest(("b",))) == 0.1  # the first number
    assert _score_of(file, LogRequest(("a_*",), "bleu")) is None


def test_models_are_looked_at_in_an_order_that_their_names_do_not_give():
    models = [f"family{i:02d}/model" for i in range(40)]
    request = LogRequest(models=4)  # of twelve is looked up how able they are
    looked = request.candidates(models)
    assert len(set(looked)) == 12 and looked == request.candidates(models[::-1])
    assert looked != models[:12] and sorted(looked) != models[:12]


def test_an_archive_gives_its_files_alone_and_no_more_than_allowed(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as bundle:
        for name in ("x/one.json", "x/two.json"):
            member = tarfile.TarInfo(name)
            member.size = 600
            bundle.addfile(member, io.BytesIO(b"0" * 600))
        link = tarfile.TarInfo("x/three.json")
        link.type, link.linkname = tarfile.SYMTYPE, "one.json"
        bundle.addfile(link)
    _unpack(tmp_path / "a.tar.gz", tmp_path / "out", LogRequest(), "a")
    assert sorted(path.name for path in (tmp_path / "out/x").iterdir()) == ["one.json", "two.json"]
    with pytest.raises(UsageError, match="unpacks to more than"):  # each alone is less
        _unpack(tmp_path / "a.tar.gz", tmp_path / "b", LogRequest(max_gb=1e-6), "a")
    for name in ("../out.jsonl", "C:/out.jsonl"):
        with zipfile.ZipFile(tmp_path / "out.zip", "w") as packed:
            packed.writestr(name, "{}")
        with pytest.raises(UsageError, match="outside itself"):
            _unpack(tmp_path / "out.zip", tmp_path / "c", LogRequest(), "out")
    assert not (tmp_path / "out.jsonl").exists()


def test_an_archive_comes_with_the_user_s_token_and_no_further_than_allowed(tmp_path, monkeypatch):
    sent = []

    class Archive(BaseHTTPRequestHandler):
        def do_GET(self):
            sent.append(self.headers["Authorization"])
            is_moved = self.path == "/moved"
            self.send_response(302 if is_moved else 200)
            if is_moved:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b"0" * (0 if is_moved else 3000))

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Archive)
    Thread(target=server.serve_forever, daemon=True).start()
    url, target = f"http://127.0.0.1:{server.server_port}", tmp_path / "a.tar.gz"
    try:
        for token, header in (("", None), ("t0ken", "Bearer t0ken")):
            monkeypatch.setenv("GITHUB_TOKEN", token)
            _download(url, target, LogRequest(max_gb=3e-6), "o/r")
            assert target.stat().st_size == 3000 and sent.pop() == header
        _download(f"{url}/moved", target, LogRequest(), "o/r")
        assert sent == ["Bearer t0ken", None], "an address that nobody named gets no token"
        with pytest.raises(UsageError, match=r"o/r: more than --max_gb 2\.9e-06"):
            _download(url, target, LogRequest(max_gb=2.9e-6), "o/r")
    finally:
        server.shutdown()
        server.server_close()
