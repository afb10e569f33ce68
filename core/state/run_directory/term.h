#pragma once
// The coordinator that leads a run over several hosts, and how far it has come: `network.term` in the run directory.
// A host that wants to lead on reads it while it holds the run directory's lock, and so learns whether somebody has led
// after the coordinator that it knows. A run that was always on one host has no such file.

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::run_directory {

struct Term {
  int64_t term = 0;    // counts the launches that led: a later one has a higher number
  uint64_t stage = 0;  // the last one that all its hosts have opened: none of them has committed a step of a later one

  auto operator<=>(const Term&) const = default;
};

// Nothing where there is no file. Throws Fault::corrupt.
std::optional<Term> read_term(const std::string& run);
// The same; the zeroth term where there is no file.
inline Term term_of(const std::string& run) { return read_term(run).value_or(Term{}); }
// For the lock's holder. Throws Fault::io.
void write_term(const std::string& run, const Term& term);
// Writes the first term, unless there is one. Throws as both above do.
void begin_terms(const std::string& run);

}  // namespace estrain::run_directory
