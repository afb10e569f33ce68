"""The beginning of host.py and of export.py in the user's Python: `python CODE DESCRIPTOR`, CODE is this file and one of the two.
DESCRIPTOR is the descriptor of a file with the job's JSON, written by cmd/users_python.cpp.

The user's function is model.file = "net.py:build", or the argument of `estrain export net.py:build`. The function takes nothing, and
returns a module, or a module and an example mini-batch: a tensor, a tuple or list of forward's arguments, or a dictionary of
forward's arguments by name. torch, random and numpy are seeded before the call.
"""
import importlib.util
import inspect
import json
import os
import random
import socket
import sys
import traceback

with open(int(sys.argv[1])) as passed:
    JOB = json.load(passed)
PATH, FUNCTION = JOB["file"], JOB["function"]
sys.argv = [PATH]
sys.path[0] = os.path.dirname(PATH)  # as with `python net.py`
TORCH_ADVICE = (f"install torch {JOB['torch'].split('+')[0]} from PyPI in that Python, or name another one: "
                f"{JOB['setting']}")


class Refused(Exception):
    """The user's code is valid Python, but cannot be trained or exported."""


def give_up(message, advice, **more):
    """Ends this process by an error: comm::Failed with these fields. A worker prints the error, too, and so does a fork server,
    whose workers will report the error."""
    report = dict(JOB["refusal"], message=message, advice=advice, **more)
    if "answer" in JOB:
        os.write(JOB["answer"], json.dumps({"refusal": report}).encode())
    else:
        print(message, advice, sep="\n", file=sys.stderr, flush=True)
    if "socket" in JOB:
        socket.socket(fileno=JOB["socket"]).send(json.dumps(report).encode())
    os._exit(1)


def release_of(version):
    return version.split(".")[:2]


if JOB["portable"]:  # compiled code would pass the portable kernels by
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
try:
    import torch
except ImportError as error:
    give_up(f"{sys.executable}: torch cannot be imported: {error}; torch {JOB['torch']} is needed", TORCH_ADVICE)
if torch.__version__ != JOB["torch"] and ("answer" not in JOB or release_of(torch.__version__) != release_of(JOB["torch"])):
    give_up(f"{sys.executable} has torch {torch.__version__}; this estrain is built with LibTorch {JOB['torch']}",
            TORCH_ADVICE)

try:
    import numpy.random
except ImportError:
    numpy = None


def seed_streams(seed):
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def load_function():
    name = os.path.splitext(os.path.basename(PATH))[0]
    spec = importlib.util.spec_from_file_location(name, PATH)
    if spec is None:
        raise Refused(f"{PATH} is no file of Python code")
    code = importlib.util.module_from_spec(spec)
    sys.modules[name] = code
    spec.loader.exec_module(code)
    if not callable(getattr(code, FUNCTION, None)):
        raise Refused(f"{PATH} has no function {FUNCTION}")
    return getattr(code, FUNCTION)


def call_function(seed):
    """Returns the module, and the example mini-batch or None."""
    function = load_function()
    torch.manual_seed(seed)
    seed_streams(seed)
    refuse_arguments(function)
    made = function()
    module, batch = made if isinstance(made, (tuple, list)) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        raise Refused(f"{FUNCTION} returned a {type(made).__name__}, not a torch.nn.Module, alone or with an example "
                      "mini-batch")
    return module, batch


def refuse_arguments(function):
    """The function is called without arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    names = [each.name for each in signature.parameters.values()
             if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if names:
        raise Refused(f"{FUNCTION} needs {', '.join(names)}, but is called without arguments: give each a default value")


def users_frames(trace):
    """Returns the trace without the frames of this file."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def described(error):
    """Returns the user's exception in a line, and its traceback."""
    shown = traceback.TracebackException(type(error), error, users_frames(error.__traceback__))
    return "".join(shown.format_exception_only()).strip(), "".join(shown.format()).strip()


