#!/usr/bin/env python3
"""Every row of scripts/bench can be measured: all names in its code exist, and one row of each kind runs with fake
programs (pretend.py). Also tests how results are kept and shown, including failures. Times are not checked."""

import ast
import builtins
import contextlib
import dis
import graphlib
import importlib
import io
import json
import os
import sys
import tempfile
import types
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
CODE = TREE / "scripts/benchmarks"
sys.path.insert(0, str(CODE))

import all_rows  # noqa: E402
import bench as program  # noqa: E402
import checkpoint_io  # noqa: E402
import cases  # noqa: E402
import contest  # noqa: E402
import memory  # noqa: E402
import plan  # noqa: E402
import straggler  # noqa: E402
from figures import LOWER, Figure, Group, Measured  # noqa: E402

PRETEND = Path(__file__).with_name("pretend.py")
# Programs for a Python with torch, not modules of the bench.
SCRIPTS = {"ddp_script", "accuracy_script", "why", "why_script"}
PROGRAMS = ("estrain", "python", "ninja", "scripts/benchmarks/bare_loop", "scripts/benchmarks/checkpoint_io",
            "scripts/benchmarks/jpeg_reading")
KERNELS = ("gemm", "attention", "convolution", "layers", "arithmetic")


def modules():
    names = sorted(path.stem for path in CODE.glob("*.py") if path.stem not in SCRIPTS)
    return {name: importlib.import_module(name) for name in names}


def tree_of(name):
    return ast.parse((CODE / f"{name}.py").read_text())


def imports_of(name):
    found = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return {one for one in found if (CODE / f"{one}.py").exists()}


def code_of(module):
    """All code objects of a module's file."""
    found = [compile(Path(module.__file__).read_text(), module.__file__, "exec")]
    for code in found:
        found += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return found


def missing_names(module):
    """The globals that its code looks up, and those that exist neither there nor as builtins."""
    names = set()
    for code in code_of(module):
        names |= {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    known = set(vars(module)) | set(vars(builtins)) | class_names(module)
    return sorted(names - known)


def class_names(module):
    """Names set in its class bodies, where they are looked up by name."""
    bodies = [node for node in ast.walk(ast.parse(Path(module.__file__).read_text())) if isinstance(node, ast.ClassDef)]
    named = (node for body in bodies for node in ast.walk(body) if isinstance(node, ast.Name))
    return {node.id for node in named if isinstance(node.ctx, ast.Store)} | {"__module__", "__qualname__", "__name__", "__annotations__"}


def missing_attributes(name, bench):
    """X of each `bench.X` and `self.bench.X` that a bench does not have."""
    used = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            of = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            used |= {node.attr} if of == "bench" else set()
    return sorted(attribute for attribute in used if not hasattr(bench, attribute))


class Tiny(program.Bench):
    """A bench with as few rounds as a quick run, and far shorter."""

    def __init__(self, folder):
        build, work = folder / "build", folder / "work"
        for name in (*PROGRAMS, *(f"scripts/benchmarks/bench_{kernel}" for kernel in KERNELS)):
            (build / name).parent.mkdir(parents=True, exist_ok=True)
            (build / name).symlink_to(PRETEND)
        work.mkdir()
        super().__init__(build, program.QUICK, work, str(build / "python"), str(build / "python"))

    def duration(self, full, quick):
        return 0.1


def cheapest_of_each_kind(bench):
    """Groups that are measured by different code."""
    kinds = {}
    for group in sorted(all_rows.all_groups(), key=lambda group: group.seconds(bench)):
        kinds.setdefault(group.measure.__code__, group)
    return list(kinds.values())


def figure(name):
    return Figure(name, LOWER, f"how {name} is measured", 1.0, " s")


def failing(_):
    raise RuntimeError("a | in\nits words")


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bench = Tiny(self.folder)
        self.pretended = self.folder / "pretended"
        self.set(os.environ, "PRETENDED", str(self.pretended))
        self.set(os.environ, "PATH", f"{self.bench.build}:{os.environ['PATH']}")

    def set(self, environment, name, value):
        before = environment.get(name)
        environment[name] = value
        self.addCleanup(lambda: environment.pop(name) if before is None else environment.update({name: before}))

    def patch(self, module, **values):
        for name, value in values.items():
            before = getattr(module, name)
            setattr(module, name, value)
            self.addCleanup(setattr, module, name, before)

    def run_bench(self, groups, *words):
        """(exit code, what was printed)"""
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            arguments = program.parse_arguments(list(words))
            code = program.run(self.bench, program.Selection(groups, arguments.only), arguments)
        return code, told.getvalue()

    def started(self, name):
        lines = map(json.loads, self.pretended.read_text().splitlines())
        return [line for line in lines if line["name"] == name]

    def test_what_the_code_names_is_there(self):
        for name, module in modules().items():
            with self.subTest(name):
                self.assertEqual(missing_names(module), [])
                self.assertEqual(missing_attributes(name, self.bench), [])

    def test_modules_do_not_import_each_other_in_a_circle(self):
        graph = {name: imports_of(name) for name in modules()}
        self.assertIn("paired_rounds", graph["figures"])
        list(graphlib.TopologicalSorter(graph).static_order())  # throws graphlib.CycleError

    def test_every_module_with_rows_is_listed_and_every_row_has_a_name_of_its_own(self):
        with_rows = {module for module in modules().values() if hasattr(module, "groups")}
        self.assertEqual(set(all_rows.MODULES), with_rows)
        names = [figure.name for group in all_rows.all_groups() for figure in group.figures]
        self.assertEqual(len(names), len(set(names)))

    def test_targets_are_stated_and_every_measurement_says_how_long_it_takes(self):
        for group in all_rows.all_groups():
            self.assertGreater(group.seconds(self.bench), 0)
            for figure in group.figures:
                self.assertIsInstance(figure.target, (int, float), figure.name)

    def test_a_quick_run_has_some_rows_of_most_kinds_and_takes_five_minutes(self):
        quick = program.Bench(self.folder, program.QUICK, None)
        arguments = program.parse_arguments(["--quick"])
        selection = program.Selection(all_rows.all_groups(), program.patterns_of(arguments))
        for pattern in all_rows.QUICK_ROWS:
            self.assertTrue(any(selection.matches(name, pattern) for name in selection.names), pattern)
        self.assertLess(program.seconds_of(quick, selection.wanted()), 300)
        self.assertGreater(len({group.measure.__code__ for group in selection.wanted()}), 9)
        self.assertEqual(program.patterns_of(program.parse_arguments(["--quick", "--only", "x"])), ["x"])
        self.assertIsNone(program.patterns_of(program.parse_arguments([])))

    def test_one_row_of_each_kind_is_measured(self):
        self.measure_one_of_each_kind()

    def test_one_row_of_each_kind_is_measured_in_a_single_round(self):
        self.bench.pace = program.BRIEF
        self.measure_one_of_each_kind()

    def measure_one_of_each_kind(self):
        self.patch(checkpoint_io, MEGABYTES=1)
        self.patch(memory, SAMPLES=2)
        self.patch(plan, ESTS=4)
        self.patch(straggler, COLD=0.01, IN_TIME=0.02, STEPS=(20, 20))
        groups = cheapest_of_each_kind(self.bench)
        self.assertGreaterEqual(len(groups), len(all_rows.MODULES))
        code, told = self.run_bench(groups, "--json", str(self.folder / "json"), "--markdown", str(self.folder / "page"))
        self.assertEqual(code, 0, told)
        found = json.loads((self.folder / "json").read_text())
        self.assertEqual([row["name"] for row in found["rows"]], [f.name for group in groups for f in group.figures])
        for row in found["rows"]:
            self.assertIn(row["verdict"], ("met", "missed"), row)
        page = (self.folder / "page").read_text()
        for row in found["rows"]:
            self.assertIn(f"`scripts/bench --{self.bench.pace} --only '{row['name']}'`", page)

    def test_all_but_ddp_as_it_comes_are_told_what_a_worker_is_told_of_malloc(self):
        contest.contest(self.bench, cases.lenet(32), 1, 1, 1, 0.01)
        (bare,), ddp = self.started("bare_loop"), self.started("python")
        self.assertEqual(bare["malloc"], "glibc.malloc.pretended=1")
        self.assertEqual([one["malloc"] for one in ddp].count("glibc.malloc.pretended=1"), 1)
        self.assertEqual(len(ddp), 2)

    def test_a_row_that_fails_is_listed_and_takes_no_other_along(self):
        groups = [
            Group((figure("one/fails"), figure("one/too")), failing, lambda _: 1),
            Group((figure("two/met"),), lambda _: {"two/met": Measured.of([1, 0.5], note="a|b")}, lambda _: 1),
            Group((figure("two/lacks"),), lambda _: {}, lambda _: 1),
            Group((figure("two/missed"),), lambda _: {"two/missed": Measured.of([2])}, lambda _: 100),
        ]
        files = ("--json", str(self.folder / "json"), "--markdown", str(self.folder / "page"))
        code, told = self.run_bench(groups, *files)
        self.assertEqual(code, 1)
        self.assertIn("4 measurements, about 2 min", told)
        self.assertIn("not measured, the attempt failed: one/too", told)
        rows = {row["name"]: row for row in json.loads((self.folder / "json").read_text())["rows"]}
        verdicts = {"one/fails": "failed", "one/too": "failed", "two/met": "met"}
        self.assertEqual({name: row["verdict"] for name, row in rows.items()},
                         verdicts | {"two/lacks": "failed", "two/missed": "missed"})  # fmt: skip
        self.assertEqual(rows["one/too"]["note"], "RuntimeError: a | in")
        page = (self.folder / "page").read_text()
        self.assertIn("| rows | 5: 1 met, 1 missed, 3 failed |", page)
        command = "`scripts/bench --only '{}'`".format
        self.bench.pace = program.FULL
        self.run_bench(groups, *files)
        page = (self.folder / "page").read_text()
        self.assertIn(f"| two/met | 0.75 s | 0.62 … 0.88 | ≤ 1.00 s | met | a\\|b | {command('two/met')} |", page)
        self.assertIn(f"| one/too | - | - | ≤ 1.00 s | failed | RuntimeError: a \\| in | {command('one/too')} |", page)

    def test_a_run_that_is_cut_short_keeps_what_it_has_and_says_what_it_has_not(self):
        def cut_short(_):
            raise KeyboardInterrupt

        groups = [
            Group((figure("two/met"),), lambda _: {"two/met": Measured.of([1])}, lambda _: 1),
            Group((figure("two/cut"), figure("two/late")), cut_short, lambda _: 1),
        ]
        with self.assertRaises(KeyboardInterrupt):
            self.run_bench(groups, "--markdown", str(self.folder / "page"), "--only", "two/met", "--only", "two/l*")
        page = (self.folder / "page").read_text()
        self.assertIn("| rows | 2: 1 met, 1 not measured |", page)
        self.assertIn("`scripts/bench --quick --only 'two/met' --only 'two/l*' --json FILE --markdown FILE`", page)

    def test_a_page_can_be_made_again_from_the_rows(self):
        groups = [Group((figure("throughput/1w/job/ddp"), figure("throughput/1w/job/tuned-ddp")), lambda _: {
            "throughput/1w/job/ddp": Measured.of([2]), "throughput/1w/job/tuned-ddp": Measured.of([1])},
            lambda _: 1)]  # fmt: skip
        self.run_bench(groups, "--json", str(self.folder / "json"), "--markdown", str(self.folder / "page"))
        page = (self.folder / "page").read_text()
        self.assertEqual(program.page(json.loads((self.folder / "json").read_text())), page)
        self.assertIn("| job | ddp | tuned-ddp |", page)
        self.assertIn("| 1w/job | 2.00 [2.00, 2.00] (missed) | 1.00 [1.00, 1.00] |", page)

    def test_a_name_selects_its_row_alone(self):
        groups = [Group((figure(name),), failing, lambda _: 1) for name in ("d2/gpt", "d2/gpt/avx2", "start/gpt")]
        names = lambda *patterns: [  # noqa: E731
            one.name for group in groups for one in program.Selection(groups, list(patterns)).figures(group)
        ]
        self.assertEqual(names("d2/gpt"), ["d2/gpt"])
        self.assertEqual(names("gp"), ["d2/gpt", "d2/gpt/avx2", "start/gpt"])
        self.assertEqual(names("d2/*", "start"), ["d2/gpt", "d2/gpt/avx2", "start/gpt"])
        self.assertEqual(names("nothing"), [])


if __name__ == "__main__":
    unittest.main()
