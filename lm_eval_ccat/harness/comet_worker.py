"""Scores translations by COMET. Run by the Python of an environment of its own, not imported.

    python comet_worker.py IN OUT MODEL BATCH_SIZE GPUS

IN holds one JSON object per line with ``src``, ``mt`` and ``ref``; OUT gets one number per line.
Imports nothing but the standard library and unbabel-comet, whose pins (numpy < 2, transformers < 5)
do not go together with the rest of this package.
"""

import json
import os
import sys


def main(source, destination, name, batch_size, gpus):
    from comet import download_model, load_from_checkpoint

    with open(source, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    path = name if os.path.exists(name) else download_model(name)
    model = load_from_checkpoint(path)
    scores = model.predict(rows, batch_size=int(batch_size), gpus=int(gpus)).scores
    with open(destination, "w", encoding="utf-8") as file:
        file.writelines(f"{float(score)!r}\n" for score in scores)


if __name__ == "__main__":
    main(*sys.argv[1:])
