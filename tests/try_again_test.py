#!/usr/bin/env python3
"""Tests tests/try_again with made-up tests: which are tried once more, and what they must do then."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TRY_AGAIN = Path(__file__).parent / "try_again"
LATE = 'echo "a_test.cpp:3: ERROR: CHECK( job.step() > 7 ) is NOT correct!"'
OTHER_BITS = 'echo "a_test.cpp:3: ERROR: CHECK( same_bits(run, other) ) is NOT correct!"'


class TryAgain(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        self.retries = self.path / "retries"

    def run_tests(self, tests):
        """The exit code, and the tests that were tried again. A test is a command of a shell."""
        lines = [f'add_test([=[{name}]=] sh -c [=[{command}]=])\n' for name, command in tests.items()]
        (self.path / "CTestTestfile.cmake").write_text("".join(lines))
        done = subprocess.run([TRY_AGAIN, "--test-dir", self.path], env={**os.environ, "ESTRAIN_RETRIES": str(self.retries)}, capture_output=True, text=True)
        again = self.retries.read_text().splitlines() if self.retries.exists() else []
        return done.returncode, again

    def second_time(self, then, first=LATE):
        """A command that fails after `first`, and does `then` when it runs again."""
        return f'if test -e {self.path}/ran; then {then}; else touch {self.path}/ran; {first}; false; fi'

    def test_passed(self):
        self.assertEqual(self.run_tests({"cmd/a": "true", "core/b": "true"}), (0, []))

    def test_late_once(self):
        self.assertEqual(self.run_tests({"cmd/a": self.second_time("true"), "core/b": "true"}), (0, ["ctest: cmd/a"]))

    def test_late_twice(self):
        self.assertEqual(self.run_tests({"cmd/a": self.second_time("false")}), (1, ["ctest: cmd/a"]))

    def test_other_bits(self):
        code, again = self.run_tests({"cmd/a": self.second_time("true", OTHER_BITS)})
        self.assertEqual((code, again), (1, []))

    def test_no_processes(self):
        code, again = self.run_tests({"core/a": self.second_time("true")})
        self.assertNotEqual(code, 0)
        self.assertEqual(again, [])

    def test_one_for_good(self):
        code, again = self.run_tests({"cmd/a": self.second_time("true"), "cmd/b": f"{LATE}; false"})
        self.assertEqual((code, sorted(again)), (1, ["ctest: cmd/a", "ctest: cmd/b"]))

    def test_many(self):
        code, again = self.run_tests({f"cmd/{name}": f"test -e {self.path}/{name} || {{ touch {self.path}/{name}; false; }}" for name in "abcd"})
        self.assertNotEqual(code, 0)
        self.assertEqual(again, [])


if __name__ == "__main__":
    unittest.main()
