#pragma once
// Where the user's Python enters this library: a worker, or a probe (core/engine/train/probe.h), of a job whose model
// is a module in Python. host.py calls these functions; cmd/users_python.h says how a process becomes that Python.

#include <cstddef>

#include "core/engine/python/interpreter.h"

// Before anything else: makes the operators known.
extern "C" void estrain_python_prepare();

// In a fork server, with no thread but this one: returns in each copy, which is to be a worker, and never in the
// server. `job`: its JSON, with a comm::PythonServer; the result, the worker's. Null: it cannot serve.
extern "C" const char* estrain_python_serve(const char* job);

// Runs to the end of the worker or probe; what fails is told to the launcher. `job`: JSON, see cmd/users_python.cpp.
// Returns the process's exit code. The caller must not hold the interpreter's lock (ctypes lets go of it).
extern "C" int estrain_python_run(estrain::python::Callback call, const char* job, size_t stream_bytes);
