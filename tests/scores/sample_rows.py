"""One row of a sample file, in the layout of the harness."""

from __future__ import annotations

import hashlib
import json


def sample_row(doc_id, values, *, filter="none", doc=None, answer="an answer"):
    """One row as lm_eval.evaluator writes it, keys in its order."""
    doc = {"question": f"question {doc_id}"} if doc is None else doc
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": "gold",
        "arguments": {"gen_args_0": {"arg_0": 'a "prompt"\n', "arg_1": {"until": ["\n"]}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": filter,
        "metrics": list(values),
        "doc_hash": hashlib.sha256(json.dumps(doc).encode()).hexdigest(),
        "prompt_hash": "p" * 64,
        "target_hash": "t" * 64,
        **values,
    }
