#pragma once
// The coordinator that leads a run over several hosts, and its progress: `network.term` in the run directory. Before a
// host takes over, it reads the file under the run directory's lock, and so learns whether another launch has led after
// the coordinator known to the host. A run on one host all the time has no such file.

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::run_directory {

struct Term {
  int64_t term = 0;    // counts the launches that led: a later launch has a higher number
  uint64_t stage = 0;  // the last stage opened by all hosts of the run: no host has committed a step of a later stage

  auto operator<=>(const Term&) const = default;
};

// Returns nothing without a file. Throws Fault::corrupt.
std::optional<Term> read_term(const std::string& run);
// Does the same, but returns the zeroth term without a file.
inline Term term_of(const std::string& run) { return read_term(run).value_or(Term{}); }
// For the lock's holder. Throws Fault::io.
void write_term(const std::string& run, const Term& term);
// Writes the first term, unless the file exists. Throws as both functions above.
void begin_terms(const std::string& run);

}  // namespace estrain::run_directory
