"""The beginning of host.py and of export.py in the user's Python: `python CODE DESCRIPTOR`, CODE is this file and one of the two.
DESCRIPTOR is the descriptor of a file with the job's JSON, written by cmd/users_python.cpp.

The user's function is model.file = "net.py:build", or the argument of `estrain export net.py:build`. The function takes nothing, and
returns a module, or a module and an example mini-batch: a tensor, a tuple or list of forward's arguments, or a dictionary of
forward's arguments by name. torch, random and numpy are seeded before the call.

A LightningModule, known by its training_step, log and log_dict, trains by its steps (with_steps()).
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
    return (with_steps(module, batch) if has_steps(module) else module), batch


def has_steps(module):
    return all(callable(getattr(module, name, None)) for name in ("training_step", "log", "log_dict"))


def with_steps(module, batch):
    """Makes training_step the forward of a LightningModule in train() mode, and validation_step in eval() mode. Forward's
    arguments are the parts of `batch`; without an example, an input and a target. Forward returns the loss, and then the
    tensors of one element that the step logs, one for each name: first the names of train.terms (in evaluations, of
    train.metrics), then the others in the order of the first log. A step's own calls of the module compute as before. The
    optimizers and schedules of the module are not used.

    `module.logged` then has the names by the mode, and `module.not_logged` other logged values: {name: type}."""
    if getattr(module, "automatic_optimization", True) is False:
        raise Refused("automatic_optimization is False: estrain updates the parameters itself, once after each step")
    whole = type(module)
    takes_names = hasattr(batch, "items")
    names = list(batch) if takes_names else names_of_parts(batch)

    class WithSteps(whole):
        def forward(self, *args, **kwargs):
            if self._logged is not None:
                return super().forward(*args, **kwargs)
            given = dict(zip(names, args)) | kwargs
            self._logged = {}
            try:
                loss = self._loss(given if takes_names else tuple(given.values()) if len(names) > 1 else given[names[0]])
                kept = {name: value for name, value in self._logged.items() if value is not loss}
            finally:
                self._logged = None
            self.logged[self.training] = list(kept)
            return (loss, *(value.detach().reshape(()).float() for value in in_order(kept, self.training)))

        def _loss(self, batch):
            step = self.training_step if self.training or not is_users(whole, "validation_step") else self.validation_step
            made = call_step(step, batch)
            loss = made.get("loss") if hasattr(made, "get") else made
            if loss is None and not self.training:
                loss = logged_loss(self._logged)
            if not isinstance(loss, torch.Tensor):
                raise Refused(f"{step.__name__} gives no loss: return it as a tensor, or under the key \"loss\""
                              + ("" if self.training else ", or log it under a name with \"loss\""))
            return loss

        def log(self, name, value, *_, **__):
            if self._logged is None:
                return
            if isinstance(value, torch.Tensor) and value.numel() == 1:
                self._logged[name] = value
            else:
                self.not_logged[name] = type(value).__name__

        def log_dict(self, dictionary, *_, **__):
            for name, value in dictionary.items():
                self.log(name, value)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    WithSteps.forward.__signature__ = inspect.Signature([own, *(own.replace(name=name) for name in names)])
    WithSteps.__name__, WithSteps.__qualname__, WithSteps.__module__ = whole.__name__, whole.__qualname__, whole.__module__
    module.__class__ = WithSteps
    module._logged, module.logged, module.not_logged = None, {}, {}
    return module


def in_order(logged, trains):
    """The logged tensors: those of the job's names in the order of the names, then the others."""
    key, step = ("terms", "training_step") if trains else ("metrics", "validation_step")
    names = JOB.get(key, [])
    for name in names:
        if name not in logged:
            raise Refused(f"train.{key} names {name}, and {step} logs {', '.join(logged) or 'nothing'} as tensors of one element")
    return [logged[name] for name in names] + [value for name, value in logged.items() if name not in names]


def names_of_parts(batch):
    parts = len(batch) if isinstance(batch, (tuple, list)) else 2 if batch is None else 1
    return ["input", "target"][:parts] if parts <= 2 else [f"part_{i}" for i in range(parts)]


def is_users(whole, name):
    """Whether the method is the user's, not a stub of Lightning's."""
    method = getattr(whole, name, None)
    return method is not None and method.__module__.split(".")[0] not in ("lightning", "pytorch_lightning")


def call_step(step, batch):
    """A step takes the mini-batch, and mostly its number. The number is 0: an exported program has no other."""
    return step(batch, 0) if len(inspect.signature(step).parameters) > 1 else step(batch)


def logged_loss(logged):
    return next((value for name, value in logged.items() if "loss" in name), None)


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


