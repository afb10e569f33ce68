"""Exports a PyTorch module as the programs that estrain trains and evaluates. `estrain export` runs this file in the user's Python,
after begin.py. From Python: export(module, batch, "net.pt2").

Some of what Python does is not in an export. So a step of the module is compared with a step of the file as it is read
back: loss, every gradient, every buffer, bit for bit, on the whole mini-batch and on a shorter one. What is known to get
lost is refused by name, with the line of the code and with what to do. A module that cannot be exported trains as it is:
model.name = "python".
"""

import contextlib
import copy
import ctypes
import errno
import hashlib
import inspect
import io
import json
import linecache
import logging
import os
import pathlib
import random
import re
import sys
import traceback
import warnings

import torch
from torch.utils._pytree import tree_flatten, tree_map

SEED = 5  # of the random numbers in the steps that are compared
TRAINING_MARK = {"estrain.training": "exported in train() mode"}
IN_PYTHON = 'or train the module as it is, in your own Python: model = {{ name = "python", file = "{}" }}'
INNER_GRAPHS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")  # that estrain can run


class NotExportable(Exception):
    """What cannot be exported, in one line; `place`: the line of the code, where it is known; `trains`: whether the module
    does in Python."""

    def __init__(self, what, advice="change the module", place="", trains=True):
        super().__init__(what)
        self.advice, self.place, self.trains = advice, place, trains

    def message(self, build):
        return f"{build} cannot be exported: {self}" + (f"\n  at {self.place}" if self.place else "")

    def advice_for(self, build):
        return f"{self.advice}; {IN_PYTHON.format(build)}" if self.trains else self.advice


def export(module, batch, path, evaluation=True, precision="fp32", ragged=()):
    """Writes `path`, and with `evaluation` the path of evaluation_path(path). The arguments of forward named by `ragged`
    have any length in their second dimension. Returns the paths. What the program will
    compute otherwise than the module may under DistributedDataParallel is said on standard error, and noted in the file
    for `estrain check`. Throws NotExportable; then nothing is written."""
    with torch.compiler.set_stance("force_eager"):
        return export_plain(without_compilation(module), batch, pathlib.Path(path), evaluation, precision, ragged)


def export_plain(module, batch, path, evaluation, precision, ragged):
    args, kwargs = own_tensors(batch)
    ragged = ragged_values(module, args, kwargs, ragged)
    refuse_hooks(module)
    refuse_shared_memory(module)
    state = copy.deepcopy(module.state_dict())
    was_training = module.training
    written = []
    try:
        for trains in (True, False) if evaluation else (True,):
            module.train(trains)
            target = path if trains else evaluation_path(path)
            temporary = target.with_name(target.name + ".tmp.pt2")
            written.append((temporary, target))
            with translated(module, args, kwargs), under(precision):
                save(module, args, kwargs, temporary, trains, precision, ragged)
            module.load_state_dict(state)
            with under(precision):
                compare(module, temporary, (args, kwargs), state, trains, ragged)
        for temporary, target in written:
            temporary.replace(target)
    finally:
        for temporary, _ in written:
            temporary.unlink(missing_ok=True)
        module.load_state_dict(state)
        module.train(was_training)
    return [target for _, target in written]


def evaluation_path(path):
    return path.with_name(path.stem + "-eval.pt2")


def own_tensors(batch):
    """The mini-batch as arguments and keyword arguments. Each tensor is its own: one that is given twice would become
    one input."""
    def clone(value):
        if not isinstance(value, torch.Tensor):
            return value
        copied = value.detach().clone(memory_format=torch.contiguous_format)
        if value.numel() > 0 and copied.stride() != value.stride():
            say("an example tensor is in another order than C's (channels_last?): estrain passes tensors in C order, so "
                "let forward convert it")
        return copied
    is_dictionary = isinstance(batch, dict)
    if isinstance(batch, torch.Tensor):
        batch = (batch,)
    args = () if is_dictionary else tree_map(clone, tuple(batch))
    kwargs = tree_map(clone, dict(batch)) if is_dictionary else {}
    for tensor in tensors_of(args, kwargs):
        if tensor.dim() == 0 or len(tensor) < 2:
            raise NotExportable("the example mini-batch needs two or more samples along the first dimension of each tensor",
                                "let build() return a larger one")
    return args, kwargs


def tensors_of(args, kwargs):
    return [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]


def refuse_hooks(module):
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            raise NotExportable(f"module {name or type(part).__name__} has backward hooks, which an export drops",
                                "remove them")
    for name, tensor in module.named_parameters():
        if tensor._backward_hooks or tensor._post_accumulate_grad_hooks:
            raise NotExportable(f"parameter {name} has gradient hooks, which an export drops", "remove them")


def refuse_shared_memory(module):
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
            raise NotExportable(f"{name} has elements that share memory, or gaps between them",
                                "give it memory of its own: tensor.clone(memory_format=torch.contiguous_format)")


def say(text):
    print(f"note: {text}", file=sys.stderr)


def without_compilation(module):
    """The module below torch.compile, itself and its parts, which its program does without."""
    compiled = torch._dynamo.eval_frame.OptimizedModule
    if isinstance(module, compiled):
        module = module._orig_mod
    for part in list(module.modules()):
        for name, child in part.named_children():
            if isinstance(child, compiled):
                setattr(part, name, child._orig_mod)
    return module


def under(precision):
    """As a job of that precision trains."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16")


def ragged_values(module, args, kwargs, names):
    """The ids of the tensors that forward takes under these names."""
    taken = dict(zip(inspect.signature(module.forward).parameters, args)) | kwargs
    for name in names:
        value = taken.get(name)
        if not isinstance(value, torch.Tensor) or value.dim() < 2:
            raise NotExportable(f"--ragged {name}: forward gets no tensor of this name with a second dimension from the "
                                "example mini-batch", f"name one of its arguments: {', '.join(taken)}", trains=False)
        if value.shape[1] < 3:
            raise NotExportable(f"--ragged {name}: the example has the length {value.shape[1]}",
                                "let build() return an example of a length of 3 or more")
    return {id(taken[name]) for name in names}


def save(module, args, kwargs, path, trains, precision, ragged):
    program = traced(module, args, kwargs, ragged)
    refuse_operators(program)
    marks = TRAINING_MARK | {"estrain.notes": json.dumps(notes_of(module, args, kwargs))} if trains else {}
    if hasattr(module, "not_logged"):  # its forward is a LightningModule's step (with_steps of begin.py)
        marks["estrain.logged"] = json.dumps(logged_by(module, args, kwargs))
    if not works_at_other(module, args, kwargs, program, precision, ragged):
        marks["estrain.precision"] = precision
    with open(path, "wb") as file:
        torch.export.save(program, file, extra_files=marks)


def logged_by(module, args, kwargs):
    """The names that a LightningModule's step logs, in the order of forward's outputs."""
    run = copied(module)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        run(*args, **kwargs)
    return run.logged[run.training]


def traced(module, args, kwargs, ragged):
    """The exported program. Where the module draws from Python's or numpy's random numbers, as typing checks do, it is
    the same whatever they are; else they would be frozen in it."""
    before = random.getstate(), numpy_state()
    program = trace(module, args, kwargs, ragged)
    if random.getstate() == before[0] and str(numpy_state()) == str(before[1]):
        return program
    for words in STATES:
        set_random_states((3, (*words, 0), None), ("MT19937", words, 0, 0, 0.0))
        if not same_programs(program, trace(module, args, kwargs, ragged)):
            raise NotExportable("the module draws from Python's or numpy's random numbers, which an export freezes",
                                "use torch's")
    set_random_states(*before)
    return program


# States of the Mersenne Twister whose next numbers are all near 0, near 1, and any: a decision by a random
# number differs for at least two of the states.
STATES = [[0x80110220] * 624, [0x12DD9BB3] * 624, list(range(1, 625))]


def set_random_states(pythons, numpys):
    random.setstate(pythons)
    if numpys is not None and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(numpys)


def same_programs(a, b):
    return a.graph_module.code == b.graph_module.code and a.constants.keys() == b.constants.keys() and all(
        same(value, b.constants[name]) for name, value in a.constants.items() if isinstance(value, torch.Tensor))


def trace(module, args, kwargs, ragged=()):
    def any_size(value):
        dims = (0, 1) if id(value) in ragged else (0,)
        return dict.fromkeys(dims, torch.export.Dim.DYNAMIC) if isinstance(value, torch.Tensor) else None
    shapes = tree_map(any_size, args) if args else tree_map(any_size, kwargs)
    with warnings.catch_warnings(), right_lstm_states(), silence():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
    for graph in graphs_of(program):
        for node in graph.nodes:
            if isinstance(node.target, torch._ops.OpOverload):
                with_all_arguments(node)
                with_own_products(node)
    return program


@contextlib.contextmanager
def silence():
    """torch prints its graph where an export fails."""
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def graphs_of(program):
    return [part.graph for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule)]


def with_all_arguments(node):
    """torch.export.load needs an argument that is called like a word of Python, `from` of uniform_, though it has the
    default value and so was left out."""
    schema = [each for each in node.target._schema.arguments if not each.kwarg_only]
    missing = schema[len(node.args):]
    if any(each.name == "from" for each in missing) and not any(each.name in node.kwargs for each in missing):
        node.args = (*node.args, *(each.default_value for each in missing))


def with_own_products(node):
    """transformers' product of experts, an operator written in Python, does what PyTorch's own does on a CPU."""
    if str(node.target) == "transformers.grouped_mm_fallback.default":
        node.target = torch.ops.aten._grouped_mm.default


def refuse_operators(program):
    for graph in graphs_of(program):
        for node in graph.nodes:
            is_operator = isinstance(node.target, torch._ops.OpOverload)
            is_inner = isinstance(node.target, torch._ops.HigherOrderOperator)
            if is_operator and node.target.namespace != "aten" or \
                    is_inner and node.target.name() not in INNER_GRAPHS:
                raise NotExportable(f"it calls {node.target.name()}, which is none of PyTorch's own operators (ATen)",
                                    "write it with these", users_place(node.meta.get("stack_trace", "")))


def works_at_other(module, args, kwargs, program, precision, ragged):
    """Whether the program is that of the other precision, too."""
    try:
        with under("fp32" if precision == "bf16" else "bf16"):
            return same_programs(program, traced(module, args, kwargs, ragged))
    except Exception:
        return False


def notes_of(module, args, kwargs):
    """What the module does under DistributedDataParallel and a program cannot, each in a sentence."""
    calls, before = {}, sys.getprofile()

    def note(frame, event, _):
        is_one = frame.f_globals.get("__name__", "").startswith("torch.distributed")
        if event == "call" and is_one and frame.f_code.co_name != "is_available":
            caller = frame.f_back.f_code.co_filename
            if not is_torchs(caller):
                calls[f"{os.path.basename(caller)}:{frame.f_back.f_lineno} calls {frame.f_code.co_name}"] = True
    again = copied(module)
    sys.setprofile(note)
    try:
        again(*args, **kwargs)
    finally:
        sys.setprofile(before)
    notes = [f"{call} of torch.distributed: each EST computes alone, without a process group; what the module gathers "
             "over ranks under DistributedDataParallel is that of one EST's mini-batch here" for call in calls]
    synced = [f"{name or 'the module'} is a SyncBatchNorm: each EST takes the statistics of its own mini-batch, as "
              "BatchNorm does; under DistributedDataParallel they are those of the mini-batches of all ranks"
              for name, part in module.named_modules() if isinstance(part, torch.nn.SyncBatchNorm)]
    for text in notes + synced:
        say(text)
    return notes  # `estrain check` finds a SyncBatchNorm itself


def copied(module):
    try:
        return copy.deepcopy(module)
    except Exception:  # calls then change the module itself
        return module


@contextlib.contextmanager
def translated(module, args, kwargs):
    """An error of torch.export as a NotExportable with the line of the user's code."""
    try:
        yield
    except NotExportable:
        raise
    except Exception as error:
        if lack_of(error):
            raise
        own = own_failure(module, args, kwargs)
        if own is not None:
            raise NotExportable(f"its forward fails, {first_line(own)}", "correct it", place_of(own), False) from own
        raise NotExportable(first_line(error), advice_for(error), place_of(error)) from error


def lack_of(error):
    """What the machine lacked, and what to do, where that is why it was raised, or why the error before it was."""
    if error is None:
        return None
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the file cannot be written: {error.strerror}", "free room there, or name another file: --output"
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error):
        return f"there is not enough memory: {first_line(error)}", \
            "free memory: an export takes about four times the bytes of the parameters"
    return lack_of(error.__context__)


def own_failure(module, args, kwargs):
    try:
        copied(module)(*args, **kwargs)
    except Exception as error:
        return error
    return None


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else "without a message"
    return f"{type(error).__name__}: {text[:240]}"


def advice_for(error):
    if "data-dependent" in str(error):
        return "let no `if`, size or index depend on the values of tensors (torch.where takes either value)"
    if "dynamic_shapes" in str(error) or isinstance(error, torch._dynamo.exc.UserError):
        return "let build() return forward's arguments in their order, or by name"
    return "change the line"


def place_of(error):
    """The user's line at which it was raised: the innermost outside of torch, and of this file."""
    found = [frame for frame in traceback.extract_tb(error.__traceback__)
             if not is_torchs(frame.filename) and frame.filename != __file__]
    if not found:
        return users_place(str(error))
    own = [frame for frame in found if "site-packages" not in frame.filename]
    frame = found[-1]
    text = f"{shown(frame.filename)}:{frame.lineno}, in {frame.name}: {(frame.line or '').strip()}"
    called = own and own[-1] is not frame
    return text + (f" (from {shown(own[-1].filename)}:{own[-1].lineno})" if called else "")


def users_place(trace):
    """Of a trace as text."""
    lines = [(file, number) for file, number in re.findall(r'File "([^"\n]+)", line (\d+)', trace) if not is_torchs(file)]
    if not lines:
        return ""
    file, number = lines[-1]
    return f"{shown(file)}:{number}: {linecache.getline(file, int(number)).strip()}"


def is_torchs(file):
    return file.startswith((os.path.dirname(torch.__file__) + os.sep, "<"))


def shown(file):
    return file.split("site-packages" + os.sep)[-1] if "site-packages" in file else os.path.relpath(file)


@contextlib.contextmanager
def right_lstm_states():
    """torch 2.11 exports an LSTM's last states with a dimension too many (pytorch/pytorch issue 151200). Their shapes are
    those of the states that it started from."""
    decompositions = torch._decomp.decompositions
    layer = decompositions.one_layer_lstm

    def with_right_states(inputs, states, *args, **kwargs):
        outputs, last = layer(inputs, states, *args, **kwargs)
        return outputs, tuple(state.reshape(start.shape) for state, start in zip(last, states))

    decompositions.one_layer_lstm = with_right_states
    try:
        yield
    finally:
        decompositions.one_layer_lstm = layer


def numpy_state():
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.random.get_state()


def compare(module, path, batch, state, trains, ragged):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = torch.export.load(path).module()
    share_parameters(again, module)
    samples = len(tensors_of(*batch)[0])
    for count, shorter in {(samples, False), (max(2, samples - 1), bool(ragged))}:
        def cut(value):
            if not isinstance(value, torch.Tensor):
                return value
            return (value[:count, :-1] if shorter and id(value) in ragged else value[:count]).clone()
        part = tree_map(cut, batch)
        run = training_step if trains else evaluation_step
        ours, theirs = (digests(run(each, part, state), each) for each in (module, again))
        different = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
        if different:
            raise NotExportable(f"the exported program computes otherwise than the module with {count} samples: "
                                f"{', '.join(different[:5])}{' and more' if len(different) > 5 else ''} differ",
                                way_out(module))
        refuse_written_order(module, state)


def share_parameters(again, module):
    """Lets the program that was read back take the memory of the module's parameters, where the values are the same."""
    own = dict(module.named_parameters(remove_duplicate=False))
    for name, parameter in again.named_parameters(remove_duplicate=False):
        if name in own and parameter.stride() == own[name].stride() and same(parameter.detach(), own[name].detach()):
            parameter.data = own[name].data


def digests(result, module):
    """Of the tensors of a step, which then take no memory."""
    found = {name: digest(result.pop(name)) for name in list(result)}
    for parameter in module.parameters():
        parameter.grad = None
    return found


def digest(tensor):
    values = tensor.detach().contiguous()
    content = (ctypes.c_ubyte * values.nbytes).from_address(values.data_ptr()) if values.nbytes else b""
    return str(values.dtype), tuple(values.shape), hashlib.blake2b(content).digest()


def refuse_written_order(module, state):
    for name, value in module.named_buffers():
        if name in state and not value.is_contiguous() and not same(value, state[name]):
            raise NotExportable(f"its forward writes buffer {name}, which is in another order than C's (channels_last?)",
                                "register it as tensor.contiguous()")


def way_out(module):
    """transformers takes another path through its attention "sdpa" while a model is exported than while it trains."""
    configs = [getattr(part, "config", None) for part in module.modules()]
    if not any(getattr(config, "_attn_implementation", None) == "sdpa" for config in configs):
        return "look for what depends on the number of samples, or is done once"
    return 'build the model with attn_implementation="eager": "sdpa" is exported otherwise than it trains'


def same(a, b):
    return a is not None and b is not None and a.dtype == b.dtype and a.shape == b.shape and \
        torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def training_step(module, batch, state):
    """Loss, gradients by the first name of each parameter, and buffers after one step."""
    module.load_state_dict(state, strict=False)
    for parameter in module.parameters():
        parameter.grad = None
    torch.manual_seed(SEED)
    outputs = [value for value in tree_flatten(module(*batch[0], **batch[1]))[0] if isinstance(value, torch.Tensor)]
    if not outputs:
        raise NotExportable("forward returns no tensor", "return the loss or the prediction first")
    refuse_functions(outputs[0])
    result = {f"output {i}": value.detach().contiguous() for i, value in enumerate(outputs)}
    if outputs[0].requires_grad:
        outputs[0].double().sum().backward()
    result |= {f"gradient of {name}": value for name, value in gradients(module, state).items()}
    return result | {f"buffer {name}": value.clone().contiguous() for name, value in module.named_buffers()
                     if name in state}


def gradients(module, state):
    """A file that is read back has tied parameters untied: what each name got is summed."""
    first_names = {}
    for name, value in state.items():
        first_names.setdefault((value.data_ptr(), value.shape), name)
    sums = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.grad is None:
            continue
        key = first_names.get((state[name].data_ptr(), state[name].shape), name)
        own = id(parameter)
        if own not in sums.setdefault(key, {}):
            sums[key][own] = parameter.grad
    return {key: sum(list(parts.values())[1:], list(parts.values())[0]).contiguous() for key, parts in sums.items()}


def evaluation_step(module, batch, state):
    module.load_state_dict(state, strict=False)
    torch.manual_seed(SEED)
    with torch.no_grad():
        outputs = tree_flatten(module(*batch[0], **batch[1]))[0]
    return {f"output {i}": value.contiguous() for i, value in enumerate(outputs) if isinstance(value, torch.Tensor)}


def refuse_functions(tensor):
    """A backward of one's own that stands in the graph of `tensor`, other than torch's."""
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        function = getattr(node, "_forward_cls", None)
        if function is not None and not function.__module__.startswith("torch."):
            raise NotExportable(f"torch.autograd.Function {function.__qualname__} has a backward of its own, which an "
                                "export drops", "write it with torch's operators")
        waiting.extend(next_node for next_node, _ in node.next_functions)


def describe_function():
    """Calls forward once, as training will. Returns the answer for `estrain init`: the sizes of a sample, and of the first
    output. Without an example mini-batch, the samples are zeros in the shape of the data."""
    module, batch = call_function(JOB["seed"])
    named, arrays = JOB["sample"]["named"], JOB["sample"]["arrays"]
    takes = [each for each in inspect.signature(module.forward).parameters.values() if each.kind <= each.POSITIONAL_OR_KEYWORD]
    names = [each.name for each in takes]
    needed = {each.name for each in inspect.signature(module.forward).parameters.values()
              if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    whose = "the example mini-batch" if batch is not None else "zeros in the shape of the data"
    given = by_name(zeros_of(arrays, names, named) if batch is None else batch, names)
    if not named and (not names or names[0] not in given):
        raise Refused(f"{FUNCTION} returned no example for forward's first argument, which gets the samples: "
                      f"{names[0] if names else 'forward takes none'}")
    output = call_forward(module, given, names, named, needed, whose)
    shown = given if named else {name: given[name] for name in names[:1]}
    return {"inputs": [{"name": name, "dims": list(value.shape[1:]), "required": name in needed}
                       for name, value in shown.items()],
            "output": list(output.shape), "loss": is_loss(output, given)}


def zeros_of(arrays, names, named):
    zeros = {each["name"]: torch.zeros([2, *each["dims"]], dtype=torch.int64 if each["whole"] else torch.float32)
             for each in arrays}
    return {name: value for name, value in zeros.items() if name in names} if named else tuple(zeros.values())


def by_name(batch, names):
    if isinstance(batch, torch.Tensor):
        batch = (batch,)
    pairs = batch.items() if hasattr(batch, "items") else zip(names, batch)
    return {name: value for name, value in pairs if isinstance(value, torch.Tensor)}


def tensors_in(outputs):
    """As training finds them: a dictionary of any kind in the order of its keys."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    parts = outputs.values() if isinstance(outputs, dict) else outputs if isinstance(outputs, (tuple, list)) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def is_loss(output, given):
    return output.dim() == 0 or (output.numel() == 1 and len(next(iter(given.values()))) > 1)


def call_forward(module, given, names, named, needed, whose):
    """The first output. By position, forward gets the sample, and the label too if the module computes its loss or cannot do
    without the label."""
    def call(*args, **kwargs):
        try:
            with torch.no_grad():
                outputs = tensors_in(copied(module)(*args, **kwargs))
        except Exception as error:
            place = place_of(error)
            raise Refused(f"forward fails with {whose}, {first_line(error)}" + (f"\n  at {place}" if place else "")) from error
        if not outputs:
            raise Refused("forward returns no tensor")
        return outputs[0]

    if named:
        return call(**given)
    if len(names) > 1 and names[1] in given:
        output = call(given[names[0]], given[names[1]])
        if is_loss(output, given) or names[1] in needed:
            return output
    return call(given[names[0]])


def export_function():
    """Exports the module of the user's function. Returns the answer for `estrain export`."""
    module, batch = call_function(JOB["seed"])
    if batch is None:
        raise NotExportable(f"{FUNCTION} returned no example mini-batch, which an export needs",
                            "return the module and an example mini-batch of two or more samples, such as: return net, (images, labels)")
    paths = export(module, batch, JOB["output"], JOB["evaluation"], JOB["precision"], JOB["ragged"])
    if has_steps(module):
        tell_parts(module, batch)
        tell_logged(module)
    return {"written": [str(path) for path in paths], "torch": torch.__version__}


def tell_parts(module, batch):
    """What the data call the parts of a LightningModule's mini-batch."""
    if not hasattr(batch, "items"):
        names = list(inspect.signature(module.forward).parameters)
        say(f"name the arrays of the data {', '.join(names)}: the parts of the mini-batch")


def tell_logged(module):
    """What a LightningModule logs, and the keys that keep it."""
    for trains, step, key in ((True, "training_step", "train.terms"), (False, "validation_step", "train.metrics")):
        if module.logged.get(trains):
            say(f"{step} logs {', '.join(module.logged[trains])}: {key} = {json.dumps(module.logged[trains])} keeps it")
    for name, kind in module.not_logged.items():
        say(f"{name} is logged as {kind} and not kept: log a tensor of one element")


def answer(task):
    """Runs the task for the command that started this process, and reports the result or the error."""
    named, faults = JOB["named"], JOB["faults"]
    try:
        os.write(JOB["answer"], json.dumps(task()).encode())
    except NotExportable as refusal:
        if JOB["traceback"]:
            traceback.print_exc()
        give_up(refusal.message(named), refusal.advice_for(named), fault=faults["infeasible"])
    except Refused as refusal:
        give_up(f"{named}: {refusal}", "change the code", fault=faults["spec"])
    except Exception as error:
        lack = lack_of(error)
        if lack:
            give_up(f"{named}: {lack[0]}", lack[1], fault=faults["peer"])
        line, trace = described(error)
        give_up(f"the code of {named} raised {line}\n{trace}", "correct the code; the traceback shows the line",
                fault=faults["spec"], cause="user_code")


if __name__ == "__main__":
    os.dup2(2, 1)  # what the user's code prints is no answer
    answer(describe_function if "sample" in JOB else export_function)
