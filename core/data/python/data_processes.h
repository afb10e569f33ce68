#pragma once
// Data processes read the samples of a user's Dataset: processes of the user's Python, which run data_host.py. The
// processes belong to a worker of the run and serve all ESTs of the worker (EasyScale section 3.2).
//
//   maker         the first process: makes the data sets once, forks data workers on request, and tells how a data
//                 worker ended
//   data worker   a copy of the maker, for as many samples as wanted, one after another. A copy starts within
//                 milliseconds and shares the memory of the data sets
//
// A sample goes through a slot of a data worker's shared memory, which is made once: `slots` samples may be under way.
// Messages are packets of sockets. To the maker, and back, JSON:
//
//   {"sets": [{"samples", "classes", "ragged": [names]}]} once the sets are made, and their lengths are in the file
//   "lengths" of the job: int64, for each set and each ragged array one for each sample; {} and two descriptors (a
//   socket, a file for tracebacks)
//   -> {"pid"}; {"ended": pid} -> {"how"}
//
// To a data worker:
//
//   {"set", "epoch"}                  -> what sample 0 is: {"kind", "arrays": [{"name", "type", "dims"}], "imported"}
//   {"set", layout} and a descriptor  the memory for the slots; no reply
//   set, epoch, sample, slot: int64   -> "done" once the sample is in the slot
//
// A failure in the user's code is the reply {"message", "advice", "traceback"}. An ended maker or data worker closes
// its socket. The end of the worker of the run, whatever the cause, ends its data processes.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/base/json/json.h"
#include "core/base/process/child_process.h"
#include "core/base/process/python.h"
#include "core/data/formats/dataset.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

struct DataCode {
  UsersPython python;
  std::vector<std::string> sets;  // "data.py:train", then evaluation if there is one
  uint64_t seed = 0;              // of the job
  int64_t most_workers = 1;
  double hang_seconds = 0;  // for a sample; 0: no limit
};

// Thread-safe after the construction.
class DataProcesses {
 public:
  struct Set {
    int64_t samples = 0;
    std::optional<int64_t> classes;  // of the Dataset's `classes`
    // Of the Dataset's `lengths`: for each ragged array the length of each sample.
    std::map<std::string, std::vector<int64_t>> lengths = {};
  };
  struct FirstSample {
    SampleShape shape;
    std::vector<std::string> imported;  // the user's modules, relative to the folder of the first set's file
  };

  // Starts the maker, and waits until the maker has made the sets. Throws Fault::spec if the Python or the user's code
  // is at fault, Fault::io.
  explicit DataProcesses(DataCode code);
  ~DataProcesses();
  DataProcesses(const DataProcesses&) = delete;
  DataProcesses& operator=(const DataProcesses&) = delete;

  const std::vector<Set>& sets() const { return sets_; }
  const std::string& name(size_t set) const { return code_.sets[set]; }

  // Reads the set's first sample. Throws as read().
  FirstSample first_sample(size_t set);

  // Takes the arrays of the run's sample at `place`, where shape() has them: of a ragged one the sample's rows.
  using Take = std::function<void(size_t place, std::span<const std::byte* const> arrays)>;

  // Reads the samples of `run`, in order; `shape` says which arrays, ragged ones with the length of the longest sample.
  // `take` puts each sample to its place; by default the samples lie one behind another. A data worker that is needed
  // and does not exist yet is started. Throws Fault::spec for an exception of the user's code and for a sample of
  // another shape, Fault::peer if the data worker ended or hangs: each names the sample.
  void read(size_t set, const SampleShape& shape, const SampleRun& run, const Take& take = {});

 private:
  struct SlotLayout;
  struct Slots;
  class Worker;
  class Lease;

  void take_sets(const Json& sets, std::string_view lengths);
  void keep_maker(const ChildOptions& options);
  Json ask_maker(const Json& order, const std::vector<int>& descriptors);
  std::unique_ptr<Worker> start_worker();
  [[noreturn]] void report_lost(Worker& worker, size_t set, int64_t index);
  [[noreturn]] void report_hung(Worker& worker, size_t set, int64_t index);
  void await_reply(Worker& worker, size_t set, int64_t index, std::string* reply);

  const DataCode code_;
  std::vector<Set> sets_;

  // Starts the maker and lives as long: the kernel ends the maker with the thread that started the maker.
  std::thread keeper_;
  std::mutex maker_mutex_;  // guards the maker's socket
  UniqueFd maker_socket_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Worker>> free_;
  int64_t workers_ = 0;
  enum class Maker { starting, runs, refused, unwanted } maker_ = Maker::starting;
  std::optional<Error> refusal_;
};

}  // namespace estrain::data
