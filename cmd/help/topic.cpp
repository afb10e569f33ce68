#include "cmd/help/topic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/base/exit_codes.h"
#include "core/base/fault_words.h"
#include "core/base/unknown_word.h"
#include "core/job/spec/keys/closest.h"
#include "core/job/spec/keys/keys.h"
#include "core/run/faults/diagnosis.h"
#include "core/state/record/event_names.h"

namespace estrain::help {
namespace {

constexpr size_t kMostSimilar = 3;
constexpr size_t kWidth = 100;

struct Word {
  std::string_view word, meaning;
};

constexpr Word kWords[] = {
    {"EST",
     "A logical data-parallel rank (\"EasyScaleThread\"), with its own samples, random stream and loss. The number of "
     "ESTs, job.ests, never changes during a job; the workers that host them may."},
    {"worker",
     "A process on a device. A worker hosts a contiguous range of ESTs and runs their mini-batches one after another."},
    {"device",
     "What a worker computes on: cpu, a CPU kind such as cpu:avx2, or a GPU such as cuda:0. nodeB/cpu is on another "
     "host."},
    {"launcher", "The process of `estrain train`: starts and watches all other processes of a run."},
    {"scribe", "The process that writes a run's records and checkpoints. Its output is in scribe.log of the run."},
    {"step", "An optimizer update, from a mini-batch of every EST."},
    {"stage", "The steps between two changes of the devices: who hosts which ESTs stays the same."},
    {"digest", "A 64-bit hash of a tensor's bits. `estrain verify` compares digests."},
    {"D0",
     "job.determinism = \"D0\": a run repeats its bits on an unchanged placement only. The arithmetic is LibTorch's."},
    {"D1",
     "job.determinism = \"D1\", the default: the bits do not depend on the number of workers, resizes and faults. The "
     "arithmetic is LibTorch's, with the bits of PyTorch."},
    {"D2",
     "job.determinism = \"D2\": the bits do not depend on the kind of device, either. The arithmetic is that of "
     "estrain's portable kernels."},
};

Topic of(const Word& word) { return {TopicKind::word, std::string(word.word), std::string(word.meaning), {}, ""}; }

Topic of(const Verb& verb) {
  Topic topic{TopicKind::command, verb.name, verb.summary, {{"usage", verb.usage()}}, ""};
  for (const auto* list : {&verb.arguments, &verb.options}) {
    for (const Option& option : *list) topic.facts.emplace_back(title_of(option), option.meaning);
  }
  return topic;
}

template <typename Owner>
Topic of(const spec::SpecKey<Owner>& key, std::string_view prefix) {
  Topic topic{
      TopicKind::key, fmt::format("{}{}", prefix, key.name), key.meaning + spec::only_for(key.conditions), {}, ""};
  topic.facts = {{"type", key.type(key.rule)}, {"default", key.default_text()}};
  if (const std::string range = key.rule.text(); !range.empty()) topic.facts.emplace_back("range", range);
  const std::string given = key.conditions.empty() ? "" : " where it may be given";
  topic.facts.emplace_back("part of the bits", key.defines_bits_as_switch ? "only whether it is 0"
                                               : key.defines_bits         ? "yes" + given
                                               : key.defines_bits_where
                                                   ? "only for " + key.defines_bits_where->selector + " " +
                                                         spec::quoted_list(key.defines_bits_where->values, " or ")
                                                   : "no: it may change between a stop and a resume");
  return topic;
}

Topic of(const ExitCode& code) {
  return {TopicKind::exit_code, fmt::format("{}", code.code), std::string(code.meaning), {}, ""};
}

Topic of(const FaultWords& words) {
  return {TopicKind::error,
          std::string(fault_name(words.fault)),
          std::string(words.meaning),
          {{"exit code", fmt::format("{}", exit_code(words.fault))}},
          std::string(words.hint)};
}

std::string attempts(const faults::FaultCause& cause) {
  if (!cause.retry) return "no";
  std::string text = cause.backoff_seconds > 0 ? fmt::format("after {:g} s", cause.backoff_seconds) : "at once";
  if (cause.other_device) text += ", without the device";
  if (cause.less_memory) text += ", with less memory";
  return text;
}

Topic of(const faults::FaultCause& cause) {
  return {TopicKind::cause,
          cause.id,
          cause.description,
          {{"class", std::string(faults::class_name(cause.fault_class))},
           {"tried again", attempts(cause)},
           {"exit code", fmt::format("{}, where the run ends by it", cause.exit_code)}},
          cause.advice};
}

Topic of(const record::EventName& event) {
  return {TopicKind::event, std::string(event.name), std::string(event.meaning), {}, ""};
}

// "… [disk_full]" -> "disk_full"; "" for a message without an id.
std::string_view id_in(std::string_view message) {
  const size_t end = message.find_last_not_of(" \n");
  if (end == message.npos || message[end] != ']') return "";
  const size_t begin = message.rfind(" [", end);
  return begin == message.npos ? "" : message.substr(begin + 2, end - begin - 2);
}

// Returns the topic of the id that a message of estrain ends with.
std::vector<Topic> topics_of_id(const std::vector<Topic>& topics, std::string_view message) {
  std::vector<Topic> found;
  std::ranges::copy_if(topics, std::back_inserter(found), [id = id_in(message)](const Topic& topic) {
    return (topic.kind == TopicKind::error || topic.kind == TopicKind::cause) && topic.name == id;
  });
  return found;
}

// "est" is the word EST.
bool is_word(const Topic& topic, std::string_view word) {
  return topic.kind == TopicKind::word && std::ranges::equal(topic.name, word, {}, ::tolower, ::tolower);
}

// Returns the cause in the fault table that matches the words of an error.
std::vector<Topic> causes_of(const std::vector<Topic>& topics, std::string_view message) {
  faults::Evidence evidence;
  evidence.log_tail = message;
  const std::string cause = faults::FaultTable::built_in().diagnose(evidence).cause;
  std::vector<Topic> found;
  std::ranges::copy_if(topics, std::back_inserter(found), [&](const Topic& topic) {
    return topic.kind == TopicKind::cause && topic.name == cause && cause != "no_signature";
  });
  return found;
}

bool is_last_part(const Topic& topic, std::string_view word) {
  return topic.kind == TopicKind::key && topic.name.size() > word.size() && topic.name.ends_with(word) &&
         topic.name[topic.name.size() - word.size() - 1] == '.';
}

// Returns the nearest names first. A key is near, too, if its last part is near.
std::vector<std::string> similar_to(const std::vector<Topic>& topics, std::string_view word) {
  std::vector<std::string> names, near;
  for (const Topic& topic : topics) names.push_back(topic.name);
  while (near.size() < kMostSimilar) {
    const std::optional<std::string> next = spec::closest(word, names);
    if (!next) break;
    near.push_back(*next);
    std::erase(names, *next);
  }
  if (!near.empty() || word.find('.') != word.npos) return near;
  std::vector<std::string> parts;
  for (const std::string& name : names) parts.push_back(name.substr(name.rfind('.') + 1));
  if (const auto part = spec::closest(word, parts)) {
    for (size_t i = 0; i < names.size() && near.size() < kMostSimilar; ++i) {
      if (parts[i] == *part) near.push_back(names[i]);
    }
  }
  return near;
}

UnknownWord unknown(const std::vector<Topic>& topics, std::string_view word) {
  std::vector<std::string> similar = similar_to(topics, word);
  const Error error = Error::make(Fault::usage, "there is no help on \"{}\"", word);
  const std::string advice = similar.empty() ? "`estrain help` lists what there is help on"
                                             : fmt::format("did you mean {}?", spec::quoted_list(similar, " or "));
  return {error.advise(advice), std::move(similar)};
}

std::string to_text(const Topic& topic) {
  std::string text = fmt::format("{} ({})\n", topic.name, name_of(topic.kind));
  text += wrapped(topic.brief, {.indent = 2, .width = kWidth});
  for (const auto& [what, value] : topic.facts) {
    const bool is_option = topic.kind == TopicKind::command && what != "usage";
    text += is_option ? fmt::format("  {}\n{}", what, wrapped(value, {.indent = 6, .width = kWidth}))
                      : wrapped(fmt::format("{}: {}", what, value), {.indent = 2, .width = kWidth});
  }
  if (!topic.advice.empty()) text += wrapped("what to do: " + topic.advice, {.indent = 2, .width = kWidth});
  return text;
}

constexpr TopicKind kKinds[] = {TopicKind::command, TopicKind::word,  TopicKind::key,  TopicKind::exit_code,
                                TopicKind::error,   TopicKind::cause, TopicKind::event};

// Counts bytes that begin a character of UTF-8.
size_t columns(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::string wrapped_line(std::string_view line, const Wrapping& wrapping) {
  const std::string indent(wrapping.indent, ' ');
  std::string text = indent;
  size_t used = wrapping.indent;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    const bool first = used == wrapping.indent;
    if (!first && used + 1 + columns(word) > wrapping.width) {
      text += "\n" + indent;
      used = wrapping.indent;
    } else if (!first) {
      text += ' ';
      ++used;
    }
    text += word;
    used += columns(word);
  }
  return text + "\n";
}

}  // namespace

std::string_view name_of(TopicKind kind) {
  static constexpr std::string_view names[] = {"command",          "word", "key", "exit code", "kind of error",
                                               "cause of a fault", "event"};
  return names[static_cast<size_t>(kind)];
}

std::string_view heading_of(TopicKind kind) {
  static constexpr std::string_view names[] = {
      "Commands", "Words", "Keys of a job spec", "Exit codes", "Kinds of errors", "Causes of faults", "Events"};
  return names[static_cast<size_t>(kind)];
}

std::vector<Topic> all_topics(const std::vector<Verb>& verbs) {
  std::vector<Topic> topics;
  for (const Verb& verb : verbs) topics.push_back(of(verb));
  for (const Word& word : kWords) topics.push_back(of(word));
  for (const auto& key : spec::job_keys()) {
    topics.push_back(of(key, ""));
    if (key.name != "optimizer.groups") continue;
    for (const auto& group_key : spec::group_keys()) topics.push_back(of(group_key, "optimizer.groups."));
  }
  for (const ExitCode& code : exit_codes) topics.push_back(of(code));
  for (const FaultWords& words : fault_words) topics.push_back(of(words));
  const faults::FaultTable table = faults::FaultTable::built_in();
  for (const faults::FaultCause& cause : table.causes()) topics.push_back(of(cause));
  for (const record::EventName& event : record::event_names) topics.push_back(of(event));
  return topics;
}

std::vector<Topic> find_topics(const std::vector<Topic>& topics, std::string_view word) {
  std::vector<Topic> found;
  std::ranges::copy_if(topics, std::back_inserter(found),
                       [&](const Topic& topic) { return topic.name == word || is_word(topic, word); });
  std::ranges::copy_if(topics, std::back_inserter(found),
                       [&](const Topic& topic) { return is_last_part(topic, word); });
  if (found.empty()) found = topics_of_id(topics, word);
  if (found.empty()) found = causes_of(topics, word);
  if (found.empty()) throw unknown(topics, word);
  return found;
}

std::string with_id(const Error& error) {
  return fmt::format("{} [{}]", error.message(), error.cause().empty() ? fault_name(error.fault()) : error.cause());
}

std::string to_text(const std::vector<Topic>& topics) {
  std::string text;
  for (const Topic& topic : topics) text += (text.empty() ? "" : "\n") + to_text(topic);
  return text;
}

std::string overview(const std::vector<Topic>& topics) {
  std::string text = "estrain help WHAT explains any of these, or the words of an error message.\n";
  for (const TopicKind kind : kKinds) {
    std::string names;
    for (const Topic& topic : topics) {
      if (topic.kind == kind) names += (names.empty() ? "" : " ") + topic.name;
    }
    text += fmt::format("\n{}\n{}", heading_of(kind), wrapped(names, {.indent = 2, .width = kWidth}));
  }
  return text;
}

std::string wrapped(std::string_view text, const Wrapping& wrapping) {
  std::string lines;
  for (;;) {
    const size_t end = text.find('\n');
    lines += wrapped_line(text.substr(0, end), wrapping);
    if (end == text.npos) return lines;
    text.remove_prefix(end + 1);
  }
}

}  // namespace estrain::help
