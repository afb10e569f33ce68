#pragma once
// The topics of `estrain help WHAT`: commands, words of estrain, keys of the spec, exit codes, kinds of errors, causes
// of faults, events. All topics come from the tables in the program.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/help/verb.h"
#include "core/base/error.h"

namespace estrain::help {

struct Wrapping {
  size_t indent = 0;   // spaces before every line
  size_t width = 100;  // of a line; a longer word stands alone
};

// Returns lines of whole words, each ended by a line feed. Line feeds of the text stay.
std::string wrapped(std::string_view text, const Wrapping& wrapping);

enum class TopicKind { command, word, key, exit_code, error, cause, event };
std::string_view name_of(TopicKind kind);     // "command", "exit code"
std::string_view heading_of(TopicKind kind);  // "Commands", "Exit codes"

struct Topic {
  TopicKind kind;
  std::string name;   // "train", "job.seed", "75", "io", "disk_full", "resize"
  std::string brief;  // a sentence
  // More about the topic, "type: integer"; for a command, the options.
  std::vector<std::pair<std::string, std::string>> facts;
  std::string advice;  // advice for the user; empty: no advice
};

// Ordered by kind, and within a kind as in the table.
std::vector<Topic> all_topics(const std::vector<Verb>& verbs);

// Returns all topics of the name: "resize" is a command and an event. `word` may also be the last part of a key
// ("seed"), or a message. A message of estrain ends with its id (with_id() of an error): the topic is that of the id.
// Another message leads to its cause in the fault table. Throws UnknownWord.
std::vector<Topic> find_topics(const std::vector<Topic>& topics, std::string_view word);

// Returns the message of the error with its id at the end, the error's cause or else its kind: "… [disk_full]". The id
// is a topic.
std::string with_id(const Error& error);

// The topic as text for a terminal.
std::string to_text(const std::vector<Topic>& topics);
// The names of all topics, by kind.
std::string overview(const std::vector<Topic>& topics);

}  // namespace estrain::help
