#pragma once
// The kinds of errors in words: the meaning of each kind, and a hint for errors without their own advice.

#include <iterator>
#include <string_view>

#include "core/base/error.h"

namespace estrain {

struct FaultWords {
  Fault fault;
  std::string_view meaning;
  std::string_view hint;
};

inline constexpr FaultWords fault_words[] = {
    {Fault::usage, "the command line is wrong", "see `estrain help` and `estrain help COMMAND`"},
    {Fault::spec, "the job spec is wrong",
     "`estrain help KEY` explains a key; `estrain check SPEC` tells all findings"},
    {Fault::infeasible, "well-formed, but cannot be done, such as more workers than ESTs",
     "the message names the bound; `estrain check SPEC` tells all findings"},
    {Fault::corrupt, "a file is cut short, or its checksum differs",
     "the file named is not used; restore it, or go on from an older checkpoint"},
    {Fault::mismatch, "two things that must agree do not, such as a checkpoint and a model",
     "use those that belong together, as the message names them"},
    {Fault::device, "a device is missing or failed", "name other devices with --devices; `estrain check` tries one"},
    {Fault::peer, "another process of the run died or does not answer",
     "see worker-*.log and scribe.log of the run, and `estrain status RUN`"},
    {Fault::io, "the operating system refused: a full disk, no permission, no such file",
     "mend what the message names, and try again"},
    {Fault::interrupted, "the job was asked to stop; it can be resumed",
     "resume with `estrain train --resume --run RUN`"},
    {Fault::bug, "an invariant of estrain is broken", "report it with the message and the run's logs"},
};

// Returns the fault's row of the table.
constexpr const FaultWords& words_of(Fault fault) {
  for (const FaultWords& words : fault_words) {
    if (words.fault == fault) return words;
  }
  return fault_words[std::size(fault_words) - 1];
}

}  // namespace estrain
