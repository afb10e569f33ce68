"""Trains the models of examples/workloads with estrain and with PyTorch, and says what is equal. See scripts/workloads."""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy
import torch

import ddp_bits
import programs
from run_record import Run
from workload_pace import Pace
from workload_runs import OnGpus, Workload

sys.path[:0] = [str(programs.EXAMPLES / "workloads"), str(programs.EXAMPLES.parent / "scripts/gpu")]
import drawn_weights  # noqa: E402
import small_data  # noqa: E402

EASYSCALE = ("shufflenetv2", "resnet50", "vgg19", "yolov3", "neumf", "bert", "electra", "swin")
BRIEF = ("shufflenetv2", "neumf", "electra", "gpt2", "lstm", "xdeepfm")  # tried in brief: small, of several kinds of layers
OTHERS = ("gpt2", "llama", "t5", "vit", "efficientnet", "lstm", "wide_deep", "xdeepfm")
COLUMNS = {  # key of a row: heading
    "plain": "2 ESTs = DDP", "elastic": "4 ESTs = DDP with tree, over resize, kill, resume", "kinds": "D2 over kinds",
    "d2": "D2/D1 step", "ddp": "step over DDP's, 1 worker", "ddp2": "2 workers", "memory": "8 ESTs, MB"}
GPU_COLUMNS = {"d1": "D1: 2 GPUs = 1 GPU, over resizes, kill, resume", "d2": "D2: GPU = CPU"}
DATA = {"yolov3": "boxes", "neumf": "ratings", "wide_deep": "clicks", "xdeepfm": "clicks", "bert": "questions", "electra": "questions", "t5": "spans",
        "gpt2": "words", "llama": "words", "lstm": "words"}  # others: pictures


def compare(workload, cells, folder):
    """With DDP, and over kinds. Fills in the cells; returns what differs."""
    runs = {"plain": workload.plain(), "elastic": workload.elastic()}
    cells["kinds"] = workload.kinds()
    report = ddp_bits.replay([([run], None) for run in runs.values()], folder)
    found = [f"{workload.name}: D2: {cells['kinds']}"] if cells["kinds"].startswith("DIFFERENT") else []
    for key, result in zip(runs, report):
        cells[key] = f"{'DIFFERENT' if result['differences'] else 'equal'}, {result['steps']} steps"
        found += [f"{workload.name}, {key}: {text}" for text in result["differences"][:8]]
    return found + compare_export(workload, runs["plain"])


def compare_export(workload, run):
    """torch.export.load of the weights that estrain put into the program's file, with the last checkpoint's; and what
    that program computes, with the module in Python. Returns what differs."""
    record = Run(run)
    arrays = record.arrays(len(record.steps))
    stored = {name.split("/", 1)[1]: torch.from_numpy(numpy.asarray(array)) for name, array in arrays.items()
              if name.startswith(("model/", "buffers/"))}
    program = torch.export.load(workload.written_back(run))
    found = [f"{workload.name}: {name} of the exported program" for name, value in program.state_dict.items()
             if not same_bits(value, stored[name])]
    module, batch = programs.build(workload.name)
    module.load_state_dict(stored, strict=True)
    arguments = ((), batch) if isinstance(batch, dict) else (batch, {})
    with torch.no_grad():
        outputs = [each(*arguments[0], **arguments[1]) for each in (module.eval(), program.module())]
    return found + ([] if same_bits(*outputs) else [f"{workload.name}: what the exported program computes"])


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def measure(workload, cells):
    pace = Pace(workload)
    cells["d2"] = pace.d2() if cells["kinds"] == "equal" else "-"
    cells["ddp"], cells["ddp2"] = pace.against_ddp(1), pace.against_ddp(2)
    cells["memory"] = pace.memory()


def fine_tune(folder, estrain):
    """The lines of examples/fine_tuning/README.md. True: transformers and estrain give one loss, bit for bit."""
    example, folder = programs.EXAMPLES / "fine_tuning", folder / "squad"
    for command in ([sys.executable, example / "prepare.py", folder],
                    [estrain, "export", f"{folder / 'net.py'}:build", "--output", folder, "--python", sys.executable],
                    [estrain, "train", folder / "job.toml", "--run", folder / "run", "--devices", "2"],
                    [estrain, "weights", folder / "run", folder / "tuned/model.safetensors"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return subprocess.run([sys.executable, example / "evaluate.py", folder]).returncode == 0


def on_gpus(names, folder, arguments):
    """The table of GPU_COLUMNS; what failed is a cell of it."""
    small_data.write(folder / "data", dict.fromkeys(DATA.get(name, "pictures") for name in names))
    rows = {}
    for name in names:
        begin = time.monotonic()
        try:
            workload = OnGpus(name, folder, arguments.build.resolve() / "estrain")
            cells = {"d1": workload.over_gpus(arguments.brief), "d2": workload.as_on_cpu()}
        except (SystemExit, subprocess.SubprocessError) as failure:
            cells = {"d1": f"FAILED: {failure}"}
        rows[name] = cells
        print(f"{name}: {'; '.join(cells.values())}; {time.monotonic() - begin:.0f} s", flush=True)
    text = "\n".join(table(rows, GPU_COLUMNS))
    if arguments.markdown:
        arguments.markdown.write_text(text + "\n")
    print(text)
    return 0 if all(cell.startswith("equal") for cells in rows.values() for cell in cells.values()) else 1


def write(names, folder, arguments):
    """NAME.toml, NAME.pt2 for training alone, and data/, as on simulated GPUs."""
    small_data.write(folder / "data", dict.fromkeys(DATA.get(name, "pictures") for name in names))
    for name in names:
        OnGpus(name, folder, arguments.build.resolve() / "estrain")
        if arguments.no_weights:
            program = folder / f"{name}.pt2"
            drawn_weights.take_weights(program, program.with_suffix(".packed"))
            program.unlink()
    return 0


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(rows, columns=COLUMNS):
    lines = [row(["model", *columns.values()]), row(["---"] * (1 + len(columns)))]
    return lines + [row([name, *(cells.get(key, "-") for key in columns)]) for name, cells in rows.items()]


def say(name, cells):
    print(f"{name}: " + "; ".join(f"{COLUMNS[key]}: {cells[key]}" for key in COLUMNS if key in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/workloads", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=EASYSCALE + OTHERS)
    parser.add_argument("--others", action="store_true", help=f"{', '.join(OTHERS)}, instead")
    parser.add_argument("--fine-tuning", action="store_true", help="examples/fine_tuning instead")
    parser.add_argument("--gpus", action="store_true", help="all of them, on simulated GPUs")
    parser.add_argument("--brief", action="store_true", help="with --gpus: six of them, of which two are resized and killed")
    parser.add_argument("--write", type=pathlib.Path, metavar="DIR", help="only write specs, programs and data of all of them there")
    parser.add_argument("--no-weights", action="store_true", help="with --write: without large weights, see scripts/gpu/drawn_weights.py")
    parser.add_argument("--no-times", action="store_true", help="only bits")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the table there, too")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="where programs, data and runs are left")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    arguments = parser.parse_args()
    names = arguments.only or (EASYSCALE + OTHERS if arguments.gpus or arguments.write else OTHERS if arguments.others else EASYSCALE)
    if arguments.brief:
        names = [name for name in names if name in BRIEF]
    if arguments.write:
        return write(names, arguments.write.resolve(), arguments)
    folder = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="workloads-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows, wrong, begin = {}, [], time.monotonic()
    try:
        if arguments.fine_tuning:
            return 0 if fine_tune(folder, arguments.build.resolve() / "estrain") else 1
        if arguments.gpus:
            return on_gpus(names, folder, arguments)
        small_data.write(folder / "data", dict.fromkeys(DATA.get(name, "pictures") for name in names))
        for name in names:
            workload = Workload(name, folder, arguments.build.resolve() / "estrain")
            cells = {}
            wrong += compare(workload, cells, folder)
            if not arguments.no_times:
                measure(workload, cells)
            rows[name] = cells
            say(name, cells)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    text = "\n".join(table(rows))
    if arguments.markdown:
        arguments.markdown.write_text(text + "\n")
    print(text, *wrong, sep="\n")
    refused = [name for name, cells in rows.items() if cells["kinds"] != "equal"]
    print(f"{len(rows)} models in {time.monotonic() - begin:.0f} s: {len(wrong)} differences; D2 over {', '.join(ddp_bits.kinds_of_processor())} "
          f"{'equal for all' if not refused else 'not for ' + ', '.join(refused)}")
    return 1 if wrong or refused else 0


if __name__ == "__main__":
    sys.exit(main())
