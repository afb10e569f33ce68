// The topics of help, and how it finds them.

#include "cmd/help/topic.h"

#include <doctest/doctest.h>

#include <set>

#include "core/base/unknown_word.h"

namespace estrain::help {
namespace {

std::vector<Topic> topics() {
  return all_topics({{"train",
                      "Run a job",
                      {{{"SPEC"}, "", {}, "Job spec", false, false}},
                      {{{"--run"}, "DIR", {}, "Where", true, false}}},
                     {"resize", "Change devices", {}, {}}});
}

std::set<TopicKind> kinds_of(const std::vector<Topic>& found) {
  std::set<TopicKind> kinds;
  for (const Topic& topic : found) kinds.insert(topic.kind);
  return kinds;
}

TEST_CASE("a word of every kind is found") {
  const auto all = topics();
  CHECK(kinds_of(find_topics(all, "train")) == std::set{TopicKind::command});
  CHECK(kinds_of(find_topics(all, "data.batch")) == std::set{TopicKind::key});
  CHECK(kinds_of(find_topics(all, "optimizer.groups.lr")) == std::set{TopicKind::key});
  CHECK(kinds_of(find_topics(all, "75")) == std::set{TopicKind::exit_code});
  CHECK(kinds_of(find_topics(all, "corrupt")) == std::set{TopicKind::error});
  CHECK(kinds_of(find_topics(all, "disk_full")) == std::set{TopicKind::cause});
  CHECK(kinds_of(find_topics(all, "device_lost")) == std::set{TopicKind::event});
  CHECK(kinds_of(find_topics(all, "resize")) == std::set{TopicKind::command, TopicKind::key, TopicKind::event});
  CHECK(kinds_of(find_topics(all, "determinism")) == std::set{TopicKind::key, TopicKind::event});
}

TEST_CASE("estrain's own words are found, in capitals or not; a word may be an event, too") {
  const auto all = topics();
  for (const char* word : {"EST", "est", "D0", "D1", "d2", "scribe", "launcher"})
    CHECK_MESSAGE(kinds_of(find_topics(all, word)) == std::set{TopicKind::word}, word);
  CHECK(kinds_of(find_topics(all, "stage")) == std::set{TopicKind::word, TopicKind::event});
}

TEST_CASE("a message of estrain leads by its id to the topic of its own table, whatever its words match") {
  const Error error(Fault::spec, "job.toml:3:1: job.seeds: unknown key. No space left on device");
  const auto found = find_topics(topics(), "estrain: " + with_id(error));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == TopicKind::error);
  CHECK(found[0].name == "spec");
  const auto cause = find_topics(topics(), with_id(error.caused_by("disk_full")) + "\n");
  REQUIRE(cause.size() == 1);
  CHECK(cause[0].name == "disk_full");
  CHECK(find_topics(topics(), "write failed: No space left on device [x]").front().name == "disk_full");
}

TEST_CASE("the last part of a key stands for all keys that end in it") {
  const auto found = find_topics(topics(), "lr");
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "optimizer.lr");
  CHECK(found[1].name == "optimizer.groups.lr");
}

TEST_CASE("the message of an error leads to its cause") {
  const auto found = find_topics(topics(), "write failed: No space left on device");
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == TopicKind::cause);
  CHECK(found[0].name == "disk_full");
  CHECK(!found[0].advice.empty());
}

std::vector<std::string> similar_to(const char* word) {
  try {
    find_topics(topics(), word);
  } catch (const UnknownWord& error) {
    CHECK(error.fault() == Fault::usage);
    return error.similar;
  }
  return {"found"};
}

TEST_CASE("a word that is not known: similar ones, the nearest first, or none") {
  CHECK(similar_to("data.bach").front() == "data.batch");
  CHECK(similar_to("trian").front() == "train");
  CHECK(similar_to("momentun").front() == "optimizer.momentum");
  CHECK(similar_to("qqqqqq").empty());
}

TEST_CASE("what is said of a word: type, default and range of a key, the exit code of an error") {
  const std::string key = to_text(find_topics(topics(), "job.ests"));
  for (const char* words :
       {"job.ests (key)", "type: integer", "default: 1", "range: [1, 65536]", "part of the bits: yes"})
    CHECK_MESSAGE(key.find(words) != key.npos, words, " in ", key);
  CHECK(to_text(find_topics(topics(), "data.readers")).find("part of the bits: no") != std::string::npos);
  CHECK(to_text(find_topics(topics(), "usage")).find("exit code: 2") != std::string::npos);
  const std::string verb = to_text(find_topics(topics(), "train"));
  CHECK(verb.find("usage: estrain train [OPTIONS] [SPEC]") != verb.npos);
  CHECK(verb.find("  --run DIR\n      Where\n") != verb.npos);
}

TEST_CASE("text is broken between words; what is longer than a line stands alone") {
  CHECK(wrapped("one two three", {.indent = 2, .width = 9}) == "  one two\n  three\n");
  CHECK(wrapped("a longlonglong b", {.width = 5}) == "a\nlonglonglong\nb\n");
  CHECK(wrapped("a\nb", {.indent = 1}) == " a\n b\n");
  CHECK(wrapped("ää ää", {.width = 5}) == "ää ää\n");
}

}  // namespace
}  // namespace estrain::help
