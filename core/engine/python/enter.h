#pragma once
// The user's Python enters this library here: a worker, or a probe (core/engine/train/probe.h), of a job whose model is
// a module in Python. host.py calls these functions; cmd/users_python.h tells how a process becomes the user's Python.

#include <cstddef>

#include "core/engine/python/interpreter.h"

// Call this before all other functions: makes the operators known.
extern "C" void estrain_python_prepare();

// Call this in a fork server, with no second thread. Returns in each copy, which becomes a worker, and never in the
// server. `job`: the server's JSON, with a comm::PythonServer. Returns the worker's JSON, or null if serving fails.
extern "C" const char* estrain_python_serve(const char* job);

// Runs to the end of the worker or probe, and reports failures to the launcher. `job`: JSON, see cmd/users_python.cpp.
// Returns the process's exit code. The caller must not hold the interpreter's lock (ctypes releases the lock).
extern "C" int estrain_python_run(estrain::python::Callback call, const char* job, size_t stream_bytes);
