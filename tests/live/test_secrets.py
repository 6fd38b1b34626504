"""No file, page or line of output holds a credential, whichever way it was given."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

import pytest
from worlds.server import trouble

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.masking import forget

KEY = "sk-s3cret/0123+x"
WAYS: dict[str, dict[str, Any]] = {
    "auth_token": {"model_args": {"auth_token": KEY}},
    "header": {"model_args": {"header": {"Authorization": f"Bearer {KEY}"}}},
    "metadata": {"harness": {"include_path": "tasks", "metadata": {"nested": [{"apiKey": KEY}]}}},
    "environment": {},
    "address": {},
}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_key_stays_out_of_every_file_and_line(way, bench, server, capfd, monkeypatch):
    forget()
    if way == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    # Answers echo the key, and so does the refusal of one document.
    refusal = json.dumps({"error": f"bad key {KEY} in {KEY}"})
    server.mood = trouble("say", 400, refusal, when=lambda number, _: number == 7)
    server.outputs = {
        model: {prompt: f"{text} {KEY}" for prompt, text in said.items()}
        for model, said in bench.outputs.items()
    }
    url = server.url
    if way == "address":
        url = url.replace("//", f"//me:{quote(KEY, safe='')}@")
    config = bench.config(url, ["m01", "m11"], stop="limits", **{"max_items": 12, **WAYS[way]})
    code = main(["rank", str(config), "--watch"])
    run = bench.run()
    assert code in (0, 3, 4)
    assert main(["rank", str(run), "--json"]) in (0, 3, 4)
    assert main(["verify", str(run)]) == 0
    said = capfd.readouterr()
    assert KEY not in said.out + said.err
    files = [f for f in run.rglob("*") if f.is_file()]
    assert {"journal.jsonl", "result.json", "config.json", "report.html", "run.log"} <= {
        f.name for f in files
    }
    for file in files:
        text = file.read_text("utf-8", errors="replace")
        for form in (KEY, json.dumps(KEY)[1:-1], quote(KEY, safe="")):
            assert form not in text, file
    assert "***" in (run / "journal.jsonl").read_text()  # the answers did echo it
    if os.name == "posix":
        assert [file for file in (run, *files) if file.stat().st_mode & 0o077] == []
