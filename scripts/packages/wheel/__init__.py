"""The command `estrain` of a wheel: becomes the program that lies beside this file."""
import os
import signal
import sys


def main():
    # Of a model in Python, the Python that has the torch of this folder.
    os.environ["ESTRAIN_PYTHON"] = sys.executable
    # Python ignores these two, and what it becomes would, too.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "estrain")
    os.execv(program, ["estrain", *sys.argv[1:]])
