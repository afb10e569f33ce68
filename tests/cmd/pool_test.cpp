// A pool of real jobs: they share devices, lose them to others and get them back, the daemon is killed, and every job
// ends with the bits that it has alone.

#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>

#include "command.h"
#include "core/base/files/files.h"
#include "core/formats/sqlite/database.h"
#include "core/state/record/logs/metrics.h"
#include "edited_file.h"
#include "file_limit.h"
#include "in_time.h"
#include "job_specs.h"
#include "repeated_run.h"
#include "run_files.h"
#include "served_pool.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {
namespace {

TEST_CASE("jobs share devices, the daemon is killed, devices are taken and lent: bits are those of each job alone") {
  in_time("devices taken from a pool", [](Timed& timed) {
    const ScratchFolder folder;
    const std::string mlp = folder.write("mlp.toml", long_job()), image = folder.write("image.toml", long_image_job()),
                      lenet = folder.write("lenet.toml", lenet_job());
    Pool pool(folder / "pool", {"--devices", "cpu*2", "--policy", "estrain", "--round", "1"});
    const Words image_steps = {"--set", "train.steps=100"};
    const int64_t first = pool.submit(mlp);  // it does not end by itself
    wait_until("the first job on both devices", [&] { return pool.job(first).at("devices").size() == 2; });
    wait_until("its first steps", [&] { return pool.job(first).at("step").get<int64_t>() > 0; });
    const int64_t second = pool.submit(lenet, {"--user", "bert"});
    pool.daemon().signal(SIGKILL);
    pool.daemon().wait();
    CHECK_FALSE(pool.ask("submit", {lenet}).code == 0);
    pool.serve();
    wait_until("word that the first job went on", [&] {
      return pool.log().find("the job continued while the pool's daemon was away") != std::string::npos;
    });
    const int64_t third = pool.submit(image, image_steps);
    for (const char* devices : {"1", "2"}) {
      const Ended taken = pool.ask("take", {devices, "--within", "3s", "--json"});
      INFO(taken.shown());
      REQUIRE(taken.code == 0);
      timed.check(Json::parse(taken.text).at("seconds").get<double>() <= 3, "devices within 3 s: " + taken.text);
      CHECK(pool.ask("lend", {devices}).code == 0);
    }
    for (const int64_t job : {second, third}) pool.wait_for(job, "done");
    CHECK(pool.ask("cancel", {std::to_string(first)}).code == 0);
    pool.wait_for(first, "cancelled");
    INFO(pool.log());
    CHECK(pool.log().find("faulted") == std::string::npos);
    const std::string trace = folder.write("trace.jsonl", pool.ask("trace").text);
    const Ended replayed = estrain({"simulate", trace, "--policy", "estrain", "--json", "-"});
    INFO(replayed.shown());
    REQUIRE(replayed.code == 0);
    CHECK(Json::parse(replayed.text).at(0).at("jobs") == 2);
    const int64_t last = events(pool.run(first), "stopped").back().at("step").get<int64_t>();
    check_like_alone(folder, pool, first, {mlp, "--set", fmt::format("train.steps={}", last)});
    check_like_alone(folder, pool, second, {lenet});
    check_like_alone(folder, pool, third, with({image}, image_steps));
  });
}

// Ends by evaluations that get no better, long before its last step.
std::string early_job(int64_t seed) {
  return fmt::format(
      "[job]\nname = \"early\"\nseed = {}\nests = 2\n[model]\nname = \"mlp\"\nhidden = [24]\n"
      "classes = 10\n[data]\nformat = \"synthetic\"\nshape = [24]\nsamples = 96\nbatch = 4\n"
      "[optimizer]\nname = \"sgd\"\nlr = 0.5\nmomentum = 0.9\n[train]\nsteps = 4000\neval_every = 2\n"
      "[early_stop]\npatience = 2\n",
      seed);
}

TEST_CASE("a pool hears of the evaluations of jobs with an early stop, and counts the steps that they made") {
  const ScratchFolder folder;
  Pool pool(folder / "pool", {"--devices", "cpu", "--policy", "srtf", "--round", "1"});
  for (const int64_t seed : {3, 4}) pool.submit(folder.write(fmt::format("{}.toml", seed), early_job(seed)));
  std::map<int64_t, Json> lines;
  for (const int64_t id : {1, 2}) pool.wait_for(id, "done");
  const std::string trace = folder.write("trace.jsonl", pool.ask("trace").text);
  std::istringstream texts(read_file(trace));
  for (std::string text; std::getline(texts, text);) {
    const Json line = Json::parse(text);
    if (line.contains("job")) lines[line.at("job").get<int64_t>()] = line;
  }
  for (const int64_t id : {1, 2}) {
    INFO(lines[id].dump());
    const int64_t last = last_step(pool.run(id));
    REQUIRE(last < 4000);
    CHECK(pool.job(id).at("step") == last);
    CHECK(pool.job(id).at("reason") == "ended early: evaluations no longer got better");
    CHECK(lines[id].at("steps") == last);
    CHECK(lines[id].at("most_steps") == 4000);
    CHECK(lines[id].at("program").get<std::string>() != "");
    const auto evaluations = record::read_metrics(pool.run(id) + "/metrics.jsonl").evaluations;
    REQUIRE(lines[id].at("evaluations").size() == evaluations.size());
    CHECK(lines[id].at("evaluations").back() ==
          Json({last, evaluations.back().loss, evaluations.back().accuracy, evaluations.back().loss}));
  }
  const Ended replayed = estrain({"simulate", trace, "--policy", "srtf", "--json", "-"});
  INFO(replayed.shown());
  CHECK(replayed.code == 0);
}

size_t changes_asked(const Pool& pool) {
  const std::string log = pool.log();
  size_t count = 0;
  for (size_t at = log.find("batch_asked"); at != log.npos; at = log.find("batch_asked", at + 1)) ++count;
  return count;
}

void stop_in_pool(const Pool& pool, int64_t job) {
  CHECK(pool.ask("cancel", {std::to_string(job)}).code == 0);
  pool.wait_for(job, "cancelled");
}

TEST_CASE(
    "a pool changes the batch of a job that allows it, and loses no change when it is killed: a repeat has its bits") {
  const ScratchFolder folder;
  const std::string spec =
      folder.write("adaptive.toml", endless_epochs() + "[elastic]\nbatch = \"adaptive\"\nbatch_range = [16, 60]\n");
  Pool pool(folder / "pool", {"--devices", "cpu*2", "--policy", "ones", "--round", "0.5"});
  const int64_t job = pool.submit(spec);
  wait_until("a larger batch on both devices", [&] { return pool.job(job).at("batch") == 60; });
  CHECK(pool.job(job).at("lr_factor") == std::sqrt(60.0 / 32));  // the optimizer is AdamW
  CHECK(pool.ask("status").says(fmt::format("job {}: 60 samples, learning rates times 1.36931", job)));
  CHECK(pool.ask("take", {"1", "--within", "20s"}).code == 0);
  wait_until("the choice of the owner's batch on one device", [&] { return changes_asked(pool) == 2; });
  pool.daemon().signal(SIGKILL);
  pool.daemon().wait();
  pool.serve({"--round", "0.5"});
  wait_until("the owner's batch", [&] { return pool.job(job).at("batch") == 32; });
  const int64_t step = pool.job(job).at("step").get<int64_t>();
  wait_until("an epoch of it", [&] { return pool.job(job).at("step").get<int64_t>() > step + 130; });
  stop_in_pool(pool, job);
  INFO(pool.log());
  const std::vector<Json> changes = changes_of(pool.run(job));
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].at("batch") == 60);
  CHECK(changes[0].at("lr_factor") == std::sqrt(60.0 / 32));
  CHECK(changes[1].at("batch") == 32);
  CHECK(changes[1].at("lr_factor") == 1);
  check_repeat(folder, pool.run(job));
}

TEST_CASE("a pool that goes by goodput measures a job's gradients and takes a larger batch; a repeat has its bits") {
  const ScratchFolder folder;
  const std::string spec =
      folder.write("adaptive.toml", endless_epochs() + "[elastic]\nbatch = \"adaptive\"\nbatch_range = [8, 16]\n");
  Pool pool(folder / "pool", {"--devices", "cpu*2", "--policy", "pollux:generations=5", "--round", "0.5"});
  // Next to nothing is learnt, so the noise stays as it is: about 300 samples.
  const int64_t job = pool.submit(spec, {"--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e-9", "--set",
                                         "data.batch=8", "--set", "data.samples=6000"});
  wait_until("twice the batch", [&] { return pool.job(job).at("batch") == 16; });
  const double lr_factor = pool.job(job).at("lr_factor").get<double>();
  CHECK(lr_factor > 1.6);  // efficiency of at least 0.8
  CHECK(lr_factor < 2);
  const int64_t step = pool.job(job).at("step").get<int64_t>();
  wait_until("an epoch of it", [&] { return pool.job(job).at("step").get<int64_t>() > step + 130; });
  stop_in_pool(pool, job);
  INFO(pool.log());
  REQUIRE(changes_of(pool.run(job)).size() == 1);
  CHECK(changes_of(pool.run(job))[0].at("lr_factor") == lr_factor);
  check_repeat(folder, pool.run(job));
}

TEST_CASE("a job whose owner does not allow it has one batch, whatever the policy") {
  const ScratchFolder folder;
  const std::string spec = folder.write("fixed.toml", endless_epochs());
  Pool pool(folder / "pool", {"--devices", "cpu*2", "--policy", "ones", "--round", "0.5"});
  const int64_t job = pool.submit(spec);
  wait_until("both devices", [&] { return pool.job(job).at("devices").size() == 2; });
  wait_until("some epochs", [&] { return pool.job(job).at("step").get<int64_t>() > 400; });
  stop_in_pool(pool, job);
  CHECK(pool.job(job).at("batch").is_null());
  CHECK(changes_of(pool.run(job)).empty());
  CHECK(changes_asked(pool) == 0);
  check_repeat(folder, pool.run(job));
}

TEST_CASE("jobs that a restart of the host has ended go on from their checkpoints") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  const Words size = {"--set", "train.steps=300", "--set", "checkpoint.every=50"};
  Pool pool(folder / "pool", {"--devices", "cpu", "--policy", "fifo"});
  const int64_t job = pool.submit(spec, size);
  wait_until("a checkpoint", [&] { return checkpoint_steps(pool.run(job)).size() > 1; });
  pool.daemon().kill();
  for (const ProcessInfo& process : processes()) {
    const auto is_of_run = [&](const std::string& word) { return word == pool.run(job); };
    if (std::ranges::any_of(process.arguments, is_of_run)) ::kill(process.pid, SIGKILL);
  }
  pool.serve();
  pool.wait_for(job, "done");
  CHECK(events(pool.run(job), "start").size() == 2);
  check_like_alone(folder, pool, job, with({spec}, size));
}

TEST_CASE("where the queue is lost, no job gets another one's run; a run of another spec is not resumed") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), lenet = folder.write("lenet.toml", lenet_job());
  Pool pool(folder / "pool", {"--devices", "cpu", "--policy", "fifo"});
  const int64_t first = pool.submit(lenet);
  pool.wait_for(first, "done");
  pool.daemon().signal(SIGTERM);
  pool.daemon().wait();
  for (const char* file : {"/pool.db", "/pool.db-wal", "/pool.db-shm"}) std::filesystem::remove(pool.folder() + file);
  const Ended list = pool.ask("list");
  CHECK(list.code == 2);
  CHECK(list.says("the queue of this pool is lost: there are folders of jobs, and no pool.db"));
  pool.serve({"--devices", "cpu", "--policy", "fifo"});
  CHECK(pool.daemon().text().find("the queue does not know the jobs whose folders are in jobs: 1;") !=
        std::string::npos);
  const int64_t second = pool.submit(spec, {"--set", "train.steps=100000", "--set", "checkpoint.every=50"});
  CHECK(second == first + 1);
  wait_until("a checkpoint", [&] { return !checkpoint_steps(pool.run(second)).empty(); });
  CHECK(events(pool.run(first), "start").size() == 1);
  pool.daemon().kill();
  for (const ProcessInfo& process : processes()) {
    const auto is_of_run = [&](const std::string& word) { return word == pool.run(second); };
    if (std::ranges::any_of(process.arguments, is_of_run)) ::kill(process.pid, SIGKILL);
  }
  edit(pool.folder() + "/jobs/2/job.toml", "\nlr = ", "\nlr = 1");
  pool.serve();
  pool.wait_for(second, "failed");
  INFO(pool.log());
  CHECK(pool.job(second).at("reason").get<std::string>().find(
            "the spec has changed since the run began: optimizer.lr") != std::string::npos);
}

TEST_CASE("names that would act on a terminal do nothing there, and are whole in JSON") {
  const ScratchFolder folder;
  const std::string evil = "a\x1B]0;b\x07\x1B[2Jc";
  Pool pool(folder / "pool", {"--devices", "none"});
  const int64_t job = pool.submit(folder.write("job.toml", long_job()), {"--user", evil});
  CHECK(pool.ask("cancel", {std::to_string(job)}).code == 0);
  for (const char* verb : {"list", "status", "log"}) {
    CAPTURE(verb);
    const Ended ended = pool.ask(verb);
    CHECK(ended.code == 0);
    CHECK(ended.text.find('\x1B') == std::string::npos);
  }
  CHECK(pool.ask("list").says("]0;b"));
  CHECK(pool.job(job).at("user") == evil);
  CHECK(pool.daemon().text().find('\x1B') == std::string::npos);
  const Ended refused = estrain({"pool", "list", folder / evil});
  CHECK(refused.code == 2);
  CHECK(refused.shown().find('\x1B') == std::string::npos);
}

TEST_CASE("what cannot run is found by check, a fault of the user's is not tried again, a cancelled job stops") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  Pool pool(folder / "pool", {"--devices", "cpu", "--policy", "srtf"});
  const int64_t wrong = pool.submit(folder.write("wrong.toml", idx_job(folder / "none", folder / "none")));
  pool.wait_for(wrong, "failed");
  CHECK(pool.job(wrong).at("reason").get<std::string>().starts_with("check: "));
  const int64_t diverges = pool.submit(spec, {"--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e38"});
  pool.wait_for(diverges, "failed");
  INFO(pool.log());
  CHECK(pool.job(diverges).at("reason").get<std::string>().starts_with("model_diverged: "));
  CHECK(events(pool.run(diverges), "start").size() == 1);
  const int64_t endless = pool.submit(spec);
  wait_until("a step", [&] { return pool.job(endless).at("step").get<int64_t>() > 0; });
  CHECK(pool.ask("cancel", {std::to_string(endless)}).code == 0);
  pool.wait_for(endless, "cancelled");
  CHECK(events(pool.run(endless), "stopped").size() == 1);
  const Ended status = pool.ask("status");
  CHECK(status.says("2 failed"));
  CHECK(status.says("1 x model_diverged"));
}

TEST_CASE("a job that is likely to fail as others did is held, says why, and starts when a user releases it") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "my books");
  const std::string text = folder.write("my books/a book.txt", some_text(400'000)),
                    lenet = folder.write("lenet.toml", lenet_job()), gpt = folder.write("gpt.toml", gpt_job(text));
  Pool pool(folder / "pool", {"--devices", "cpu", "--policy", "fifo", "--hold-after", "2"});
  for (const int64_t id : {1, 2}) {
    CHECK(pool.submit(lenet, {"--user", "anna", "--set", "optimizer.lr=1e38"}) == id);
    pool.wait_for(id, "failed");
  }
  const int64_t held = pool.submit(lenet, {"--user", "anna"}), waits = pool.submit(lenet, {"--user", "anna"});
  pool.wait_for(held, "held");
  pool.wait_for(waits, "held");
  const std::string why = "2 jobs of anna failed by model_diverged and none was done since, the last was job 2";
  CHECK(pool.job(held).at("reason").get<std::string>().starts_with(why));
  CHECK(pool.ask("status").says(fmt::format("held         job {}: {}", held, why)));
  CHECK(pool.log().find(why) != std::string::npos);
  const int64_t reads = pool.submit(gpt, {"--user", "bert", "--set", "train.steps=1000000"});
  wait_until("a step", [&] { return pool.job(reads).at("step").get<int64_t>() > 0; });
  std::filesystem::resize_file(text, 5000);
  pool.wait_for(reads, "failed");
  folder.write("my books/a book.txt", some_text(400'000));
  const int64_t second = pool.submit(gpt, {"--user", "carl"});
  pool.wait_for(second, "held");
  CHECK(pool.job(second).at("reason").get<std::string>().starts_with(
      fmt::format("job {} failed by data_file_shortened in {}: mend the file", reads, text)));
  pool.daemon().signal(SIGKILL);
  pool.daemon().wait();
  pool.serve({"--hold-after", "2"});
  for (const int64_t id : {held, second}) CHECK(pool.ask("release", {std::to_string(id)}).code == 0);
  for (const int64_t id : {held, second, waits}) pool.wait_for(id, "done");
  CHECK(pool.ask("release", {std::to_string(held)}).says(fmt::format("job {} is not held: it is done", held)));
  CHECK(pool.ask("release", {"99"}).says("there is no job 99"));
  check_like_alone(folder, pool, held, {lenet});
  const Json failures = Json::parse(pool.ask("status", {"--faults", "--json"}).text);
  CHECK(failures.at("statuses").at(0).at("jobs") == 3);
  CHECK(failures.at("statuses").at(2).at("jobs") == 3);
  CHECK(failures.at("causes").at(0).at("cause") == "model_diverged");
  CHECK(failures.at("causes").at(0).at("trials") == 2);
  CHECK(failures.at("causes").at(1).at("files") == Json::array({text}));
  CHECK(pool.ask("status", {"--faults"}).says("data_file_shortened: " + text));
}

TEST_CASE("what a pool refuses, it refuses by name, and nothing is lost") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), where = folder / "pool";
  const Ended outside = estrain({"pool", "serve", folder / "slurm", "--devices", "slurm"});
  CHECK(outside.code == 2);
  CHECK(outside.says("--devices slurm: this process is in no Slurm allocation"));
  CHECK_FALSE(std::filesystem::exists(folder / "slurm"));
  const Ended group = estrain({"pool", "serve", where, "--devices", "1", "--group", "no such group"});
  CHECK(group.code == 2);
  CHECK(group.says("--group no such group: "));
  CHECK(estrain({"pool", "serve", where}).says("a new pool needs devices"));
  CHECK(estrain({"pool", "list", where}).says("there is no pool"));
  {
    Pool pool(where, {"--devices", "cpu"});
    const Ended second = estrain({"pool", "serve", where});
    CHECK(second.code == 2);
    CHECK(second.says("another daemon serves this pool already: process " + std::to_string(pool.daemon().pid())));
    CHECK(pool.ask("policy", {"polux"}).code == 2);
    CHECK(pool.ask("policy", {"srt"}).says("did you mean \"srtf\"?"));
    CHECK(pool.ask("take", {"3"}).says("the pool has 1 of cpu, 3 are asked back"));
    CHECK(pool.ask("cancel", {"5"}).says("there is no job 5"));
    CHECK(pool.ask("submit", {spec, "--min", "3", "--max", "2"}).code == 2);
    CHECK(pool.ask("submit", {spec, "--set", "resources.devices=cuda:0"}).code == 2);
    CHECK(pool.ask("submit", {folder / "none.toml"}).code == 2);
    for (const char* flag : {"--alone=3", "--background=no"}) CHECK(pool.ask("submit", {spec, flag}).code == 2);
    CHECK(pool.ask("list").says("no jobs"));
    CHECK(pool.ask("policy", {"srtf"}).code == 0);
    CHECK(estrain({"pool", "devices", "add", where, "cpu"}).code == 0);
    CHECK(pool.ask("status").says("srtf"));
    CHECK(estrain({"pool", "devices", "remove", where, "2"}).code == 0);
  }
  CHECK(estrain({"pool", "submit", where, spec}).says("no daemon serves this pool"));
  sqlite::Database::open(where + "/pool.db", sqlite::Access::read_write).execute("PRAGMA user_version = 2");
  const Ended newer = estrain({"pool", "serve", where});
  CHECK(newer.code == 2);
  CHECK(newer.says("this pool has format 2"));
}

TEST_CASE("on a full disk no job is taken that would be forgotten; those that run go on") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  Pool pool(folder / "pool", {"--devices", "cpu", "--policy", "fifo"}, kSurvivesFileLimit);
  const int64_t first = pool.submit(spec, {"--set", "train.steps=300"});
  wait_until("a step", [&] { return pool.job(first).at("step").get<int64_t>() > 0; });
  limit_files(pool.daemon().pid(), 100);
  const Ended refused = pool.ask("submit", {spec});
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("File too large"));
  limit_files(pool.daemon().pid(), RLIM_INFINITY);
  pool.wait_for(first, "done");
  const int64_t second = pool.submit(folder.write("lenet.toml", lenet_job()));
  pool.wait_for(second, "done");
}

}  // namespace
}  // namespace estrain::testing
