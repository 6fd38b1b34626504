"""Score translations by COMET; run by the Python of a separate environment, never imported.

    python comet_worker.py MODEL BATCH_SIZE GPUS

Reads one JSON line per call, ``[{"src": , "mt": , "ref": }, ...]``, and answers with one line,
``{"scores": [...]}`` or ``{"error": "..."}``; its first line says ``{"ready": MODEL}``. The model
is loaded once. Imports only the standard library and unbabel-comet, whose pins (numpy < 2,
transformers < 5) conflict with the rest of this package.
"""

import json
import os
import sys


def main(name: str, batch_size: str, gpus: str) -> None:
    # Python first looks next to this script, where comet.py would hide COMET's package.
    own_folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != own_folder]
    # Libraries may print to standard output, so the answers get a separate channel.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def say(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        from comet import download_model, load_from_checkpoint

        path = name if os.path.exists(name) else download_model(name)
        # A folder as COMET and the hub lay it out.
        if os.path.isdir(path):
            path = os.path.join(path, "checkpoints", "model.ckpt")
        model = load_from_checkpoint(path)
    except Exception as error:
        say(error=f"{type(error).__name__}: {error}")
        raise
    say(ready=name)
    for line in sys.stdin:
        try:
            prediction = model.predict(
                json.loads(line), batch_size=int(batch_size), gpus=int(gpus), progress_bar=False
            )
            say(scores=[float(score) for score in prediction.scores])
        except Exception as error:  # the next call may work
            say(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
