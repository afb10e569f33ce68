"""Calls a user's function with all outputs of an evaluation (train.metrics_file): core/engine/train/evaluation/users_metrics.h.
request.py goes before.

The function gets a dictionary of numpy arrays, a row for each sample of the evaluation set. The arrays are files mapped into
memory, and a change stays in this process. The function returns a dictionary of numbers.
"""
import faulthandler
import importlib.util
import random
import signal
import traceback

PATH, FUNCTION = os.path.abspath(REQUEST["file"]), REQUEST["function"]
MOST_SHOWN = 20000  # characters of a traceback: it must fit a message
OTHER_PYTHON = "or name another Python with train.metrics_python, such as \"venv/bin/python\""
try:
    import numpy
except ImportError:
    numpy = None


def load_function():
    name = os.path.splitext(os.path.basename(PATH))[0]
    spec = importlib.util.spec_from_file_location(name, PATH)
    if spec is None:
        raise Refused("is in no file of Python code", "name a file that ends in .py")
    code = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code)
    if not callable(getattr(code, FUNCTION, None)):
        raise Refused(f"names no function of {PATH}", "name a function that takes the outputs as its argument")
    return getattr(code, FUNCTION)


def rows_of(column):
    """The array of an output: [samples, ...]."""
    shape = (REQUEST["rows"], *column["sizes"])
    return numpy.asarray(numpy.memmap(column["path"], column["type"], "c", shape=shape))


def number(name, value):
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value).hex()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Refused(f"returned {name} as a {type(value).__name__}, and no number",
                      "return a number, such as float(f1)") from None


def numbers_in(made):
    names = REQUEST["names"]
    if not hasattr(made, "items"):
        raise Refused(f"returned a {type(made).__name__}", "return a dictionary of numbers by name, such as {\"f1\": 0.5}")
    made = dict(made.items())
    given = ", ".join(map(str, made)) or "nothing"
    for name in names:
        if name not in made:
            raise Refused(f"returned no {name}, which train.metrics_names lists; it returned: {given}",
                          "return each of these names, with the number nan where there is none")
    for name in made:
        if name not in names:
            raise Refused(f"returned {name}, which train.metrics_names does not list",
                          f"list all its names: metrics_names = {json.dumps([str(each) for each in made])}")
    return [number(name, made[name]) for name in names]


def seed_streams(seed):
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def call():
    if numpy is None:
        raise Refused(f"needs numpy, which {sys.executable} lacks", f"install numpy into that Python, {OTHER_PYTHON}")
    os.chdir(os.path.dirname(PATH))  # where relative paths begin, wherever the job was started
    sys.argv = [PATH]
    sys.path[0] = os.path.dirname(PATH)  # as with `python metrics.py`
    seed_streams(REQUEST["seed"])
    function = load_function()
    seed_streams(REQUEST["seed"])
    return numbers_in(function({column["name"]: rows_of(column) for column in REQUEST["columns"]}))


def users_frames(trace):
    """The trace without the frames of this file and of Python's import, and of a file that is no Python all of it."""
    own = (__file__, "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace


def told():
    faulthandler.register(signal.SIGUSR2, REQUEST["notes"], all_threads=False)  # asked if the function does not return
    try:
        return {"numbers": call()}
    except Refused:
        raise
    except BaseException as error:
        shown = traceback.TracebackException(type(error), error, users_frames(error.__traceback__))
        what = "".join(shown.format_exception_only()).strip()[:2000]
        advice = "correct the code at the line that the traceback shows"
        if isinstance(error, ModuleNotFoundError) and error.name:
            advice = f"install {error.name} into {sys.executable}, {OTHER_PYTHON}"
        return {"error": f"raised {what}", "advice": advice, "traceback": "".join(shown.format()).strip()[-MOST_SHOWN:]}


answer(told)
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
