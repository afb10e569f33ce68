"""Trains in the user's Python, in the place of a worker's program. begin.py goes before. core/engine/python/enter.h reads the job's
JSON, too. A fork server stops after loading the library; copies of the fork server become workers. Only the workers read
the user's file.

host.py loads the worker's library and hands control to the library. The library calls back for Python's own duties: build the
module, run forward and backward, switch the random streams. Tensors cross as arguments and results of the library's
operators, numbers and addresses as arguments of a plain function. The lock of the interpreter is held only during such
a call: readers and other threads of the library run without the lock.
"""
import contextlib
import ctypes
import inspect
import signal
import struct
import sysconfig

try:
    LIBRARY = ctypes.CDLL(JOB["library"])
except OSError as error:
    give_up(f"{sys.executable}: the worker library cannot be loaded: {error}", "run scripts/setup and scripts/build")
LIBRARY.estrain_python_prepare()


def become_worker():
    """Returns in each copy of this fork server, with the worker's job. The lock of the interpreter is held all the
    time, and Python's own work before and after a fork is done, as for os.fork()."""
    serve = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_char_p)(("estrain_python_serve", LIBRARY))
    ctypes.pythonapi.PyOS_BeforeFork()
    job = serve(json.dumps(JOB).encode())
    if job is None:
        os._exit(1)
    ctypes.pythonapi.PyOS_AfterFork_Child()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python begins
    if numpy is not None:
        numpy.random.seed()  # unlike in other copies
    return json.loads(job)


if "socket" not in JOB:
    JOB = become_worker()
OPS = torch.ops.estrain
given, returned, failed, announce = (getattr(OPS, name).default for name in ("given", "returned", "failed", "announce"))

RANDOM_WORDS, NUMPY_WORDS = struct.Struct("<625Iid"), struct.Struct("<Iiid")
NUMPY_AT = RANDOM_WORDS.size
NUMPY_KEYS = 624
STREAM_BYTES = (NUMPY_AT + NUMPY_WORDS.size + 4 * NUMPY_KEYS + 7) // 8 * 8
Streams = ctypes.c_char * STREAM_BYTES
MOST_SHOWN = 20000  # characters of a traceback: it must fit a message


class Module:
    """The user's module, with the tensors that training must not change. Places of tensors are the results of places()."""

    def __init__(self, module):
        self.module, self.names, self.modes, self.is_new = module, None, None, True
        self.parameters = list(places(module, "_parameters", lambda owner, name: True))
        self.buffers = list(places(module, "_buffers", is_persistent))
        constants = list(places(module, "_buffers", lambda owner, name: not is_persistent(owner, name)))
        self.frozen = self.parameters + constants
        self.versions = [tensor._version for *_, tensor in self.frozen]

    def move(self, device):
        """Moves the module as module.to() does. Parameters and buffers stay the objects that they are, also where two names
        have one tensor: the library knows these objects."""
        torch.cuda.init()  # not during a mini-batch: torch would seed the generators of GPUs then
        # It would give weights other memory than the state's, for cuDNN, which does not compute recurrent layers here.
        torch.nn.RNNBase.flatten_parameters = lambda layer: None
        kept = [(getattr(owner, kind), name, tensor) for owner in self.module.modules() for kind in ("_parameters", "_buffers")
                for name, tensor in getattr(owner, kind).items() if tensor is not None]
        self.module.to(device)
        for place, name, tensor in kept:
            if place[name] is not tensor:
                tensor.data = place[name].data
                place[name] = tensor
        self.versions = [tensor._version for *_, tensor in self.frozen]

    def keep(self, names):
        """Makes these constants buffers."""
        kept = [place for place in self.frozen if place[3] in names]
        self.buffers += kept
        self.frozen = [place for place in self.frozen if place[3] not in names]
        self.versions = [tensor._version for *_, tensor in self.frozen]

    def forward(self, trains):
        inputs = given()
        self.memory = self.addresses()
        if trains == (self.modes is not None):
            self.switch(trains)
        watched = CallsToRanks() if self.is_new else contextlib.nullcontext()
        self.is_new = False
        with watched:
            outputs = self.module(*inputs) if self.names is None else self.module(**dict(zip(self.names, inputs)))
        tensors = list(flattened(outputs))
        if outputs is None:
            raise Refused("forward returned None: end it with a `return` of the loss, or of what model.loss reads")
        if not tensors:
            raise Refused(f"forward returned {type(outputs).__name__} without a tensor")
        if not trains:
            self.check_memory()
        returned(tensors)

    def switch(self, trains):
        """Switches to eval() mode, and back to the modes in which the user's function left the modules."""
        if trains:
            for module, mode in self.modes:
                module.training = mode
            self.modes = None
        else:
            self.modes = [(module, module.training) for module in self.module.modules()]
            self.module.eval()

    def backward(self, is_first):
        given()[0].backward()
        if is_first:
            self.find_written()
        self.check_gradients(is_first)
        self.check_frozen()
        self.check_memory()
        self.keep_buffers()

    def find_written(self):
        """Finds constants that forward writes or replaces: these are kept like other buffers."""
        first = len(self.parameters)
        checked = list(zip(self.frozen, self.versions))
        written = [place for place, version in checked[first:] if self.is_written(place, version)]
        kept = checked[:first] + [pair for pair in checked[first:] if not self.is_written(*pair)]
        self.frozen, self.versions = [place for place, _ in kept], [version for _, version in kept]
        self.buffers += written
        announce("written", [full for *_, full, _ in written], [])

    @staticmethod
    def is_written(place, version):
        owner, kind, name, _, tensor = place
        return getattr(owner, kind)[name] is not tensor or tensor._version != version

    def check_gradients(self, is_first):
        for *_, full, tensor in self.parameters:
            if is_first:
                tensor.grad = None
            elif tensor.grad is not None:
                raise Refused(f"{full} has a gradient that estrain did not get: a hook that runs after its "
                                   "gradient is accumulated has taken the place of estrain's; use register_hook")

    def check_frozen(self):
        for (owner, place, name, full, tensor), version in zip(self.frozen, self.versions):
            if getattr(owner, place)[name] is not tensor:
                raise Refused(f"forward replaced {full}, which must stay the tensor that it is while it trains")
            if tensor._version != version:
                raise Refused(f"forward wrote {full}; only the optimizer writes parameters, and a buffer with "
                                   "persistent=False that forward leaves alone in the first mini-batch must be constant")

    def addresses(self):
        return [tensor.data_ptr() for *_, tensor in self.parameters + self.buffers]

    def check_memory(self):
        """A tensor with other memory than the state's would keep its values while the state's are trained."""
        for (*_, full, _), before, now in zip(self.parameters + self.buffers, self.memory, self.addresses()):
            if now != before:
                raise Refused(f"forward gave {full} other memory, as by \"{full}.data = ...\"; write a buffer's values by "
                              "copy_()")

    def keep_buffers(self):
        """If forward has put a tensor in a buffer's place, copies the tensor into the buffer, which holds the state."""
        for owner, place, name, _, tensor in self.buffers:
            now = getattr(owner, place)[name]
            if now is not tensor:
                with torch.no_grad():
                    tensor.copy_(now)
                getattr(owner, place)[name] = tensor


def is_persistent(owner, name):
    return name not in owner._non_persistent_buffers_set


def places(module, place, admits):
    """Yields (owner, place, name, full name, tensor), a tied tensor once, in the order of named_parameters()."""
    known = set()
    for prefix, owner in module.named_modules():
        for name, tensor in getattr(owner, place).items():
            if tensor is None or tensor in known or not admits(owner, name):
                continue
            known.add(tensor)
            yield owner, place, name, f"{prefix}.{name}" if prefix else name, tensor


def flattened(outputs):
    if isinstance(outputs, torch.Tensor):
        yield outputs
    elif isinstance(outputs, dict):
        for value in outputs.values():
            yield from flattened(value)
    elif isinstance(outputs, (tuple, list)):
        for value in outputs:
            yield from flattened(value)
    elif outputs is not None:
        raise Refused(f"forward returned a {type(outputs).__name__} where a tensor, tuple, list or dictionary of "
                        "tensors is wanted")


def arguments_of(module):
    """Returns (positional, by name alone, takes any name) of forward."""
    positional, by_name, any_name = [], [], False
    for parameter in inspect.signature(module.forward).parameters.values():
        required = parameter.default is inspect.Parameter.empty
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append((parameter.name, required))
        elif parameter.kind == parameter.VAR_POSITIONAL:
            positional += [(parameter.name, False)] * 2
        elif parameter.kind == parameter.KEYWORD_ONLY:
            by_name.append(parameter.name)
        else:
            any_name = True
    return positional, by_name, any_name


def build(seed):
    global user
    module, _ = call_function(seed)
    for name, parameter in module.named_parameters():
        if getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise Refused(f"parameter {name} has a hook that runs after its gradient is accumulated: it would see "
                               "the gradient of one EST; use register_hook")
    user = Module(module)
    positional, by_name, any_name = arguments_of(module)
    announce("modules", [name for name, _ in module.named_modules() if name], [])
    for kind, named in (("parameters", module.named_parameters(remove_duplicate=False)),
                        ("buffers", named_buffers(module, True)), ("constants", named_buffers(module, False))):
        named = list(named)
        announce(kind, [name for name, _ in named], [tensor for _, tensor in named])
    announce("kept elsewhere", list(dict.fromkeys(kept_elsewhere(module))), [])
    run_eagerly(eagerly)
    announce("required", [name for name, required in positional if required], [])
    announce("arguments", [name for name, _ in positional], [])
    announce("by name", by_name, [])
    announce("any name", ["yes"] * any_name, [])
    announce("synced", [name for name, part in module.named_modules()
                        if isinstance(part, torch.nn.SyncBatchNorm)], [])


def imported(_):
    """Announces the files of the user's modules imported by now: files in the folder of the user's file,
    or below, by the names below the folder. Installed modules are no part of the job."""
    folder = os.path.dirname(PATH) + os.sep
    installed = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
    found = set()
    for module in list(sys.modules.values()):
        file = os.path.abspath(getattr(module, "__file__", None) or os.sep)
        places = file.split(os.sep)
        if not file.startswith(folder) or file == PATH or file.startswith(installed):
            continue
        if "site-packages" not in places and "dist-packages" not in places and os.path.isfile(file):
            found.add(file[len(folder):])
    announce("imported", sorted(found), [])


def named_buffers(module, persistent):
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for name, tensor in owner._buffers.items():
            if tensor is not None and is_persistent(owner, name) == persistent:
                yield f"{prefix}.{name}" if prefix else name, tensor


def kept_elsewhere(module):
    """Yields names of attributes with tensors other than parameters and buffers, also in lists, tuples and dictionaries."""
    known = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    for prefix, owner in module.named_modules():
        for name, value in vars(owner).items():
            if name not in ("_parameters", "_buffers", "_modules") and holds_tensor(value, known):
                yield f"{prefix}.{name}" if prefix else name


def holds_tensor(value, known, depth=4):
    if isinstance(value, torch.Tensor):
        return id(value) not in known
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)) or depth == 0:
        return False
    return any(holds_tensor(each, known, depth - 1) for each in value)


eagerly = False


def run_eagerly(wanted):
    """Makes code for torch.compile run as written, or compiled again."""
    global eagerly
    eagerly = bool(wanted)
    if "torch._dynamo" in sys.modules and not JOB["portable"]:
        torch.compiler.set_stance("force_eager" if eagerly else "default")


def take_names(count):
    """Sets how forward gets inputs: by the library's names; by position if `count` is negative."""
    user.names = None if count < 0 else OPS.names.default()


def store_streams(address):
    state = Streams.from_address(address)
    _, words, gauss = random.getstate()
    RANDOM_WORDS.pack_into(state, 0, *words, gauss is not None, gauss or 0.0)
    if numpy is not None:
        _, keys, position, has_gauss, gauss = numpy.random.get_state()
        NUMPY_WORDS.pack_into(state, NUMPY_AT, 1, position, has_gauss, gauss)
        numpy.frombuffer(state, numpy.uint32, NUMPY_KEYS, NUMPY_AT + NUMPY_WORDS.size)[:] = keys


def load_streams(address):
    state = Streams.from_address(address)
    *words, has_gauss, gauss = RANDOM_WORDS.unpack_from(state, 0)
    random.setstate((3, tuple(words), gauss if has_gauss else None))
    known, position, has_gauss, gauss = NUMPY_WORDS.unpack_from(state, NUMPY_AT)
    if numpy is not None and known:
        keys = numpy.frombuffer(state, numpy.uint32, NUMPY_KEYS, NUMPY_AT + NUMPY_WORDS.size)
        numpy.random.set_state(("MT19937", keys, position, has_gauss, gauss))


class CallsToRanks:
    """Announces where the user's code calls functions of torch.distributed, which would gather over ranks."""

    def __enter__(self):
        self.found, self.before = {}, sys.getprofile()
        sys.setprofile(self.note)

    def __exit__(self, *_):
        sys.setprofile(self.before)
        announce("calls to ranks", list(self.found), [])

    def note(self, frame, event, _):
        is_one = frame.f_globals.get("__name__", "").startswith("torch.distributed")
        if event != "call" or not is_one or frame.f_code.co_name == "is_available":
            return
        if line := line_of(frame.f_back):
            self.found[f"{line} calls {frame.f_code.co_name}"] = True


class Watched:
    """Tells the library, during the object's lifetime, which module runs, by hooks on all modules, and at which line of
    the user's code: the user's file, or a file in the same folder or below."""

    def __init__(self, module):
        self.names = {each: name for name, each in module.named_modules()}
        self.entered, self.line = [""], ""
        self.hooks = [torch.nn.modules.module.register_module_forward_pre_hook(self.enter),
                      torch.nn.modules.module.register_module_forward_hook(self.leave, always_call=True)]
        self.tracer = sys.gettrace()
        sys.settrace(self.call)

    def end(self):
        sys.settrace(self.tracer)
        for hook in self.hooks:
            hook.remove()

    def tell(self):
        name = self.entered[-1]
        OPS.entering.default(f"{name} ({self.line})" if name and self.line else name or self.line)

    def enter(self, module, _):
        self.entered.append(self.names.get(module, self.entered[-1]))
        self.tell()

    def leave(self, *_):
        self.entered.pop()
        self.tell()

    def call(self, frame, *_):
        return self.step if line_of(frame) else None

    def step(self, frame, event, _):
        self.line = line_of(frame.f_back if event == "return" else frame) or self.line
        self.tell()
        return self.step


def line_of(frame):
    """Returns for example net.py:7; nothing for code outside the user's folder."""
    folder = os.path.dirname(PATH) + os.sep
    file = frame.f_code.co_filename if frame else ""
    if not file.startswith(folder) or "site-packages" in file:
        return ""
    return f"{file[len(folder):]}:{frame.f_lineno}"


def tell_modules(tells, watched=[]):
    while watched:
        watched.pop().end()
    if tells:
        watched.append(Watched(user.module))


user = None
# In the order of `Duty` in core/engine/python/interpreter.cpp.
DUTIES = (build, take_names, lambda trains: user.forward(bool(trains)), lambda _: user.backward(_), seed_streams,
          load_streams, store_streams, tell_modules, imported, lambda _: user.keep(OPS.names.default()), run_eagerly,
          lambda index: user.move(torch.device("cuda", index)))


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int64)
def call(duty, argument):
    try:
        DUTIES[duty](argument)
        return 0
    except Refused as refusal:
        failed(str(refusal), "")
        return 1
    except BaseException as error:
        line, trace = described(error)
        failed(line[:2000], trace[-MOST_SHOWN:])
        return 1


LIBRARY.estrain_python_run.argtypes = [type(call), ctypes.c_char_p, ctypes.c_size_t]
os._exit(LIBRARY.estrain_python_run(call, json.dumps(JOB).encode(), STREAM_BYTES))
