"""Runs in the user's Python, started by a worker of estrain whose data are a Dataset: `python HOST.py DESCRIPTOR`. DESCRIPTOR
is the descriptor of a file with JSON. core/data/python/data_processes.h says what the processes do and how they talk.

The first process makes the data sets, and forks a data worker when asked. A data worker reads samples into shared memory.
"""
import ctypes
import faulthandler
import hashlib
import importlib.util
import json
import mmap
import operator
import os
import random
import signal
import socket
import struct
import sys
import sysconfig
import traceback

with open(int(sys.argv[1])) as passed:
    JOB = json.load(passed)
CONTROL = socket.socket(fileno=JOB["socket"])
for each in JOB["sets"]:
    each["file"] = os.path.abspath(each["file"])
FOLDER = os.path.dirname(JOB["sets"][0]["file"])
os.chdir(FOLDER)  # where relative paths begin, wherever the job was started
sys.argv = [JOB["sets"][0]["file"]]
sys.path[0] = FOLDER  # as with `python data.py`
MOST_SHOWN = 20000  # characters of a traceback
REQUEST, DONE = struct.Struct("<4q"), b"done"  # set, epoch, sample, slot
OTHER_PYTHON = "or name another Python with data.python, such as \"venv/bin/python\""


class Refused(Exception):
    """The user's code is valid Python, but cannot be trained on. The arguments: message, advice."""


def give_up(channel, message, advice="", trace=""):
    channel.send(json.dumps({"message": message, "advice": advice, "traceback": trace}).encode())


def report(channel, error, doing):
    """Tells why `doing` failed: a refusal, or an exception of the user's code with its traceback."""
    if isinstance(error, Refused):
        return give_up(channel, f"{doing}: {error.args[0]}", error.args[1])
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    shown = traceback.TracebackException(type(error), error, trace)
    what = "".join(shown.format_exception_only()).strip()[:2000]
    if isinstance(error, ModuleNotFoundError) and error.name:
        return give_up(channel, f"{doing}: {sys.executable} lacks the module {error.name}",
                       f"install {error.name} into that Python, {OTHER_PYTHON}", trace_text(shown))
    give_up(channel, f"{doing} raised {what}", "", trace_text(shown))


def trace_text(shown):
    return "".join(shown.format()).strip()[-MOST_SHOWN:]


try:
    import torch
    from torch.utils.data import IterableDataset
except ImportError as problem:
    give_up(CONTROL, f"{sys.executable}: torch cannot be imported: {problem}",
            f"install torch into that Python, {OTHER_PYTHON}")
    os._exit(1)
try:
    import numpy
except ImportError:
    numpy = None
torch.set_num_threads(1)  # as in DataLoader's workers; and a forked process has no threads of its parent's


def seed_streams(value):
    random.seed(value)
    torch.default_generator.manual_seed(value)
    if numpy is not None:
        numpy.random.seed(value)


def seed_of_sample(epoch, index):
    """The seed of all generators for a sample: examples/python/README.md has the same lines."""
    words = struct.pack("<3q", JOB["seed"], epoch, index)
    return int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "little")


def named(place):
    return f"{os.path.basename(place['file'])}:{place['name']}"


def load(file, loaded={}):
    if file not in loaded:
        name = os.path.splitext(os.path.basename(file))[0]
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None:
            raise Refused(f"{file} is no file of Python code", "name a file that ends in .py")
        loaded[file] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded[file])
    return loaded[file]


def is_dataset(thing):
    return hasattr(type(thing), "__getitem__") and hasattr(type(thing), "__len__")


def is_stream(thing):
    return isinstance(thing, IterableDataset) or isinstance(thing, type) and issubclass(thing, IterableDataset)


def make_set(place):
    seed_streams(JOB["seed"] % 2**32)
    made = getattr(load(place["file"]), place["name"], None)
    if made is None:
        raise Refused(f"{place['file']} has no {place['name']}",
                      "name a map-style Dataset, or a function without arguments that returns the Dataset")
    if callable(made) and not is_stream(made) and (isinstance(made, type) or not is_dataset(made)):
        made = made()
    if is_stream(made):
        raise Refused("is an IterableDataset, whose samples have no numbers: neither their order nor the place to "
                      "resume from could be the same on other devices",
                      "write a map-style Dataset, with __len__ and __getitem__: list the samples in __init__ and read "
                      "one in __getitem__; for tar shards use data.format = \"webdataset\"")
    if not is_dataset(made):
        raise Refused(f"gave a {type(made).__name__} without __len__ and __getitem__", "give a map-style Dataset")
    if getattr(made, "collate_fn", None) is not None:
        raise Refused("has a collate_fn, and mini-batches are stacked samples of one shape",
                      "do in __getitem__ what collate_fn does for one sample, and remove collate_fn; samples of several "
                      "lengths are padded where the Dataset has their lengths: lengths = {\"tokens\": [...]}")
    return made


def lengths_of(made):
    """The lengths of samples that have lengths of their own, {array: int64 [samples]}, by the Dataset's `lengths`."""
    given = getattr(made, "lengths", None)
    if not isinstance(given, dict):
        return {}
    lengths = {}
    for name, each in given.items():
        try:
            values = torch.as_tensor(each)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise Refused(f"lengths[{name!r}]: {problem}", LENGTHS)
        if values.is_floating_point() or values.is_complex() or values.shape != (len(made),):
            raise Refused(f"lengths[{name!r}] is {described(values)}, for {len(made)} samples", LENGTHS)
        values = values.to("cpu", torch.int64).contiguous()
        if len(made) and int(values.min()) < 0:
            first = int((values < 0).nonzero()[0])
            raise Refused(f"lengths[{name!r}] says {int(values[first])} for sample {first}, and a length is at least 0", LENGTHS)
        lengths[str(name)] = values
    return lengths


def classes_of(made):
    classes = getattr(made, "classes", None)
    if isinstance(classes, int):
        return classes
    return len(classes) if isinstance(classes, (list, tuple, dict)) else None


def imported():
    """The user's modules imported by now: files in the folder of the user's file, or below, by the names below the
    folder. Installed modules are no part of the job."""
    folder = FOLDER + os.sep
    installed = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
    own = {place["file"] for place in JOB["sets"]}
    found = set()
    for module in list(sys.modules.values()):
        file = os.path.abspath(getattr(module, "__file__", None) or os.sep)
        if not file.startswith(folder) or file in own or file.startswith(installed) or not os.path.isfile(file):
            continue
        if not {"site-packages", "dist-packages"} & set(file.split(os.sep)):
            found.add(file[len(folder):])
    return sorted(found)


TYPES = {torch.float32: "float32", torch.float64: "float64", torch.int8: "int8", torch.int16: "int16",
         torch.int32: "int32", torch.int64: "int64", torch.uint8: "uint8", torch.bool: "bool"}
BY_NAME = {name: kind for kind, name in TYPES.items()}
SHAPES = ("return (image, class), an image float32 [channels, height, width]; (numbers, class), numbers float32 [n]; (tokens, "
          "next tokens), both int64 [n]; or a dictionary of arrays with the names of the model's inputs")


LENGTHS = "give lengths as a dictionary: for each array with samples of several lengths, the length of each sample"


def is_array(value):
    return isinstance(value, torch.Tensor) or type(value).__module__ == "numpy"


def tensor(value, what):
    """The tensor that DataLoader would stack."""
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, (bool, int)) or is_array(value):
        try:
            value = torch.as_tensor(value)
        except TypeError as problem:
            raise Refused(f"{what}: {problem}", "convert it to a type of torch, such as float32")
        if value.dtype not in TYPES:
            raise Refused(f"{what} is {str(value.dtype)[6:]}", f"convert it to one of {', '.join(BY_NAME)}")
        return value.detach()
    raise Refused(f"{what} is a {type(value).__name__}, and no array or number",
                  "convert it in __getitem__, for example by torchvision.transforms.ToTensor()")


def is_class(value):
    if isinstance(value, bool) or getattr(value, "ndim", 0) != 0:
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def described(value):
    if is_array(value):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of " + ", ".join(described(each) for each in value)
    return f"a {type(value).__name__}"


def array(name, value):
    return {"name": name, "type": TYPES[value.dtype], "dims": list(value.shape)}


def describe(sample, lengths):
    """The kind, names, types and shapes of a sample."""
    for name in lengths:
        if not isinstance(sample, dict) or getattr(sample.get(name), "ndim", 0) == 0:
            raise Refused(f"__getitem__ returned {described(sample)}, and the Dataset has the lengths of {name}",
                          f"return a dictionary in which {name} is an array, or leave {name} out of lengths")
    if isinstance(sample, dict) and sample and all(isinstance(name, str) for name in sample):
        return {"kind": "fields", "arrays": [array(name, tensor(each, name)) for name, each in sample.items()]}
    if isinstance(sample, (tuple, list)) and len(sample) == 2:
        values = tensor(sample[0], "the input")
        if values.dtype == torch.float32 and values.dim() in (1, 3) and is_class(sample[1]):
            return {"kind": "image" if values.dim() == 3 else "vector", "arrays": [array("input", values)]}
        if values.dtype == torch.int64 and values.dim() == 1 and is_array(sample[1]):
            following = tensor(sample[1], "the target")
            if following.dtype == torch.int64 and following.shape == values.shape:
                return {"kind": "tokens", "arrays": [array("input", values)]}
    raise Refused(f"__getitem__ returned {described(sample)}", SHAPES)


class Slots:
    """The places in shared memory for the samples of a set. `layout`: from data_processes.cpp."""

    def __init__(self, layout, descriptor, lengths):
        self.lengths = lengths
        self.kind, self.arrays = layout["kind"], layout["arrays"]
        self.memory = mmap.mmap(descriptor, layout["slots"] * layout["bytes"])
        os.close(descriptor)
        self.slots = [[self.view(slot * layout["bytes"], each) for each in self.arrays]
                      for slot in range(layout["slots"])]
        self.targets = [self.target_at(slot * layout["bytes"] + layout["target_at"], layout["targets"])
                        for slot in range(layout["slots"])]

    def view(self, at, each):
        count = 1
        for size in each["dims"]:
            count *= size
        if count == 0:
            return torch.empty(each["dims"], dtype=BY_NAME[each["type"]])
        flat = torch.frombuffer(self.memory, dtype=BY_NAME[each["type"]], count=count, offset=at + each["at"])
        return flat.view(each["dims"])

    def target_at(self, at, count):
        return torch.frombuffer(self.memory, dtype=torch.int64, count=count, offset=at) if count else None

    def put(self, slot, sample, index):
        views = self.slots[slot]
        if self.kind == "fields":
            if not isinstance(sample, dict):
                raise Refused(f"__getitem__ returned {described(sample)}; sample 0 is a dictionary", SHAPES)
            for each, view in zip(self.arrays, views):
                if each["name"] not in sample:
                    raise Refused(f"lacks {each['name']}; it has: {', '.join(map(str, sample))}", SHAPES)
                value = tensor(sample[each["name"]], each["name"])
                if each["ragged"]:
                    view = self.rows(view, value, int(self.lengths[each["name"]][index]), each["name"])
                self.copy(view, value, each["name"])
            return
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            raise Refused(f"__getitem__ returned {described(sample)}; sample 0 has an input and a target", SHAPES)
        self.copy(views[0], tensor(sample[0], "the input"), "the input")
        if self.kind == "tokens":
            return self.copy(self.targets[slot], tensor(sample[1], "the target"), "the target")
        if not is_class(sample[1]):
            raise Refused(f"the class is {described(sample[1])}", "return the number of the class as an integer")
        self.targets[slot][0] = operator.index(sample[1])

    @staticmethod
    def rows(view, value, length, what):
        if value.dim() > 0 and value.shape[0] != length:
            raise Refused(f"{what} has the length {value.shape[0]}, and the Dataset's lengths[{what!r}] says {length}",
                          "give the lengths of what __getitem__ returns")
        return view[:length]

    @staticmethod
    def copy(view, value, what):
        if value.dtype != view.dtype or value.shape != view.shape:
            raise Refused(f"{what} is {described(value)}; in sample 0 it is {described(view)}",
                          "give all samples one type and shape: resize, crop or pad in __getitem__; or " + LENGTHS)
        view.copy_(value)


def read(made, epoch, index):
    seed_streams(seed_of_sample(epoch, index))
    return made[index]


def work(sets, lengths, channel):
    """A data worker: answers each request, until the socket is closed."""
    slots = {}
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 65536, 1)
        if not message:
            return
        if not message.startswith(b"{"):
            number, epoch, index, slot = REQUEST.unpack(message)
            try:
                slots[number].put(slot, read(sets[number], epoch, index), index)
                channel.send(DONE)
            except BaseException as error:
                report(channel, error, f"{named(JOB['sets'][number])}: sample {index}")
            continue
        order = json.loads(message)
        number = order["set"]
        if descriptors:
            slots[number] = Slots(order, descriptors[0], lengths[number])
            continue
        try:
            shape = describe(read(sets[number], order["epoch"], 0), lengths[number])
            channel.send(json.dumps({**shape, "imported": imported()}).encode())
        except BaseException as error:
            report(channel, error, f"{named(JOB['sets'][number])}: sample 0")


def become_worker(sets, lengths, parent, channel, notes):
    CONTROL.close()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
    faulthandler.enable(notes)
    faulthandler.register(signal.SIGUSR2, notes)
    work(sets, lengths, socket.socket(fileno=channel))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def fork_worker(sets, lengths, channel, notes):
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            become_worker(sets, lengths, parent, channel, notes)
        finally:
            os._exit(1)
    os.close(channel)
    os.close(notes)
    return {"pid": child}


def how_ended(child):
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return {"how": f"exit status {os.waitstatus_to_exitcode(status)}"}
    number = os.WTERMSIG(status)
    try:
        return {"how": f"{signal.Signals(number).name} (signal {number})"}
    except ValueError:
        return {"how": f"signal {number}"}


def serve():
    sets, lengths = [], []
    for place in JOB["sets"]:
        try:
            sets.append(make_set(place))
            lengths.append(lengths_of(sets[-1]))
            place.update(samples=len(sets[-1]), classes=classes_of(sets[-1]), ragged=list(lengths[-1]))
        except BaseException as error:
            report(CONTROL, error, named(place))
            return
    with open(JOB["lengths"], "wb") as file:
        for each in lengths:
            for values in each.values():
                if len(values):
                    file.write((ctypes.c_char * values.nbytes).from_address(values.data_ptr()))
    CONTROL.send(json.dumps({"sets": [{name: place[name] for name in ("samples", "classes", "ragged")}
                                      for place in JOB["sets"]]}).encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(CONTROL, 4096, 2)
        if not message:
            return
        order = json.loads(message)
        answer = how_ended(order["ended"]) if "ended" in order else fork_worker(sets, lengths, *descriptors)
        CONTROL.send(json.dumps(answer).encode())


serve()
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
