#pragma once
// The job of `estrain init DATA --model MODEL`: the sections of a spec that trains at once. The data tell the number of
// classes, the model the size of its samples and, by what its forward returns, the loss.
//
//   a built-in model's name    the data must be what the model takes: images, vectors or tokens
//   net.pt2                    a program of `estrain export`, with net-eval.pt2 if the file lies beside
//   net.py:build               a module in Python. The user's Python calls forward once, with the example mini-batch of
//                              build(), or with zeros in the shape of the data if build() returns the module alone
//
// Images are resized, and photos cut, to the size of the model's samples. Anything else that differs is an error.

#include <string>

#include "core/job/spec/starter.h"

namespace estrain::cmd {

// The command line of init: DATA, --model and --python; the last two may be empty.
struct InitWords {
  std::string data, model, python;
};

// Throws Fault::usage for unknown words and missing files, Fault::spec where model and data do not fit, and the errors
// of data::open() and of ask_users_python().
spec::Starter starter_job(const InitWords& words);

}  // namespace estrain::cmd
