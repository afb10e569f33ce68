"""The beginning of convert.py, columns.py and metrics.py in the user's Python: `python CODE DESCRIPTOR`, CODE is this file and one of
the three.
DESCRIPTOR is the descriptor of a file with the request's JSON, whose field "answer" is the descriptor of a file that gets the
answer's JSON: what the task returns, or {"error", "advice"}.
"""
import contextlib
import json
import os
import sys

with open(int(sys.argv[1])) as passed:
    REQUEST = json.load(passed)


class Refused(Exception):
    def __init__(self, error, advice):
        super().__init__(error)
        self.advice = advice


def lines_of(error):
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]


@contextlib.contextmanager
def whole_file(path):
    """Yields the name of a file to write, which takes the place of `path` once it is whole and on the disk."""
    part = f"{path}.{os.getpid()}"
    try:
        yield part
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)


def answer(task, words_of=str):
    """`words_of`: the words of an OSError."""
    try:
        told = task()
    except Refused as error:
        told = {"error": str(error), "advice": error.advice}
    except OSError as error:
        told = {"error": words_of(error), "advice": "mend what the message names, and try again"}
    os.write(REQUEST["answer"], json.dumps(told).encode())


