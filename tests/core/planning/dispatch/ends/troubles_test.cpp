#include <doctest/doctest.h>

#include "core/base/json/codec.h"
#include "core/planning/dispatch/ends/ends.h"

namespace estrain::dispatch {
namespace {

std::vector<std::string> keys_of(const Troubles& troubles, const std::string& user,
                                 const std::vector<std::string>& inputs, int64_t failures = 3) {
  std::vector<std::string> keys;
  for (const Obstacle& one : troubles.in_the_way_of(user, inputs, failures)) keys.push_back(one.key);
  return keys;
}

using Keys = std::vector<std::string>;

TEST_CASE("failures count by user and cause, and a job of the user that is done clears all of them") {
  Troubles troubles;
  troubles.failed("anna", "user_code", 1, 10);
  troubles.failed("anna", "model_diverged", 2, 11);
  troubles.failed("bert", "user_code", 3, 12);
  troubles.failed("anna", "user_code", 4, 13);
  CHECK(keys_of(troubles, "anna", {}).empty());
  CHECK(keys_of(troubles, "anna", {}, 2) == Keys{"cause user_code"});
  troubles.failed("anna", "user_code", 5, 14);
  CHECK(keys_of(troubles, "anna", {}) == Keys{"cause user_code"});
  CHECK(keys_of(troubles, "bert", {}).empty());
  CHECK(troubles.in_the_way_of("anna", {}, 3).front().sentence ==
        "3 jobs of anna failed by user_code and none was done since, the last was job 5: mend the cause, then "
        "`estrain pool release` lets this job start");
  troubles.done("bert", {}, 0);
  CHECK(keys_of(troubles, "anna", {}) == Keys{"cause user_code"});
  troubles.done("anna", {}, 0);
  CHECK(troubles.empty());
}

TEST_CASE("a damaged file is in the way of each job that reads the file, or the folder that the file is in") {
  Troubles troubles;
  troubles.damaged("/data/my photos/a b.tar", "data_file_shortened", 7, 10);
  for (const char* input : {"/data/my photos/a b.tar", "/data/my photos", "/data/my photos/", "/data", "/"}) {
    CAPTURE(input);
    CHECK(keys_of(troubles, "bert", {"/else", input}) == Keys{"file /data/my photos/a b.tar"});
  }
  for (const char* input : {"/data/my", "/data/my photos/a", "/data/my photos/a b.tar.gz", "/data/other", ""}) {
    CAPTURE(input);
    CHECK(keys_of(troubles, "bert", {input}).empty());
  }
  CHECK(troubles.in_the_way_of("bert", {"/data"}, 3).front().sentence ==
        "job 7 failed by data_file_shortened in /data/my photos/a b.tar: mend the file, then `estrain pool release` "
        "lets this job start");
}

TEST_CASE("causes that do not blame a file hold no job for the file") {
  Troubles troubles;
  for (const char* cause : {"data_changed", "user_code", "storage_error"}) troubles.damaged("/a", cause, 1, 10);
  CHECK(troubles.empty());
}

TEST_CASE("a job that is done clears the files that it read if it began after they were found") {
  Troubles troubles;
  troubles.damaged("/data/a", "incorrect_inputs", 1, 10);
  troubles.damaged("/data/b", "incorrect_inputs", 2, 20);
  troubles.done("anna", {"/data"}, 9);
  CHECK(keys_of(troubles, "bert", {"/data"}).size() == 2);
  troubles.done("anna", {"/else"}, 30);
  CHECK(keys_of(troubles, "bert", {"/data"}).size() == 2);
  troubles.done("anna", {"/data"}, 15);
  CHECK(keys_of(troubles, "bert", {"/data"}) == Keys{"file /data/b"});
  troubles.damaged("/data/b", "incorrect_inputs", 3, 40);  // again
  troubles.done("anna", {"/data/b"}, 30);
  CHECK(keys_of(troubles, "bert", {"/data"}) == Keys{"file /data/b"});
}

TEST_CASE("troubles are forgotten after a week, and the oldest where there are many") {
  Troubles troubles;
  troubles.failed("anna", "user_code", 1, 10);
  troubles.damaged("/a", "incorrect_inputs", 1, 20);
  troubles.forget_old(10 + Troubles::kMemory - 1);
  CHECK(keys_of(troubles, "anna", {"/a"}, 1).size() == 2);
  troubles.forget_old(10 + Troubles::kMemory);
  CHECK(keys_of(troubles, "anna", {"/a"}, 1) == Keys{"file /a"});
  for (size_t i = 0; i < 3 * Troubles::kMost; ++i) {
    troubles.failed("user" + std::to_string(i), "user_code", 1, 30);
    troubles.damaged("/" + std::to_string(i), "incorrect_inputs", 1, 30);
  }
  CHECK(keys_of(troubles, "anna", {"/a"}, 1).empty());
  CHECK(keys_of(troubles, "", {"/"}, 1).size() == Troubles::kMost);
  CHECK(keys_of(troubles, "user599", {"/599"}, 1).size() == 2);
  Troubles copy;
  codec::read_fields(codec::fields_of(troubles), copy);
  CHECK(copy == troubles);
}

}  // namespace
}  // namespace estrain::dispatch
