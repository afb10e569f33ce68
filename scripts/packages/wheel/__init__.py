"""The command `estrain` of a wheel: becomes the program that lies beside this file."""
import os
import signal
import sys


def main():
    # Unless the user names another, a model in Python runs in this Python, which has the torch that the wheel requires.
    os.environ.setdefault("ESTRAIN_PYTHON", sys.executable)
    # Python ignores these two signals, and the program would ignore the two, too.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "estrain")
    os.execv(program, ["estrain", *sys.argv[1:]])
