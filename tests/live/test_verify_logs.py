"""`verify` compares the logs of a run's models with its journal."""

from __future__ import annotations

import json

import pytest


def changed(row):
    row["share"] = 1.0 if row["share"] < 1.0 else 0.0
    return [row]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (changed, "m11: the samples of loopback_task/share give document {doc}"),
        (lambda row: [], "m11: the samples of loopback_task/share lack document {doc}, which"),
        (
            lambda row: [row, {**row, "doc_id": 119}],
            "m11: the samples of loopback_task/share have document 119, which the journal has not",
        ),
    ],
)
def test_samples_that_are_not_the_journal_s_are_found(bench, server, ccat, edit, words):
    bench.ranked(server, ["m01", "m11"], max_items=30)
    [file] = (bench.run() / "m11").glob("samples_*")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    ccat("verify", bench.run())
    assert all(row["doc_id"] != 119 for row in rows)
    edited = [*edit(rows[0]), *rows[1:]]
    file.write_text("".join(json.dumps(row) + "\n" for row in edited))
    assert words.format(doc=rows[0]["doc_id"]) in ccat("verify", bench.run(), code=1).out


def test_a_results_file_of_another_estimate_is_found(bench, server, ccat):
    bench.ranked(server, ["m01", "m11"], max_items=30)
    [file] = (bench.run() / "m01").glob("results_*")
    content = json.loads(file.read_text())
    content["adaptive"]["loopback_task"]["estimate"] = 0.99
    file.write_text(json.dumps(content))
    said = ccat("verify", bench.run(), code=1).out
    assert f"{file.name} of m01: estimate 0.99, the run's 0." in said
