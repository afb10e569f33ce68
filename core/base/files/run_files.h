#pragma once
// Spells the names of all files and folders in a run directory. scripts/layers reads the names from this file, and
// refuses the names in every other file of core and cmd.

#include <cstdint>
#include <string>
#include <utility>

namespace estrain {

// A RunFiles gives the paths of a run directory's files. It touches no file.
class RunFiles {
 public:
  static constexpr const char* kSpec = "job.toml";
  static constexpr const char* kControlSocket = "control.sock";

  explicit RunFiles(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // What runs.
  std::string spec() const { return in(kSpec); }                     // the spec, with every default filled in
  std::string changes() const { return in("changes.jsonl"); }        // of the batch, and accepted data
  std::string algorithms() const { return in("algorithms.jsonl"); }  // the algorithm of each operation
  std::string checkpoints() const { return in("checkpoints"); }      // a folder (state/checkpoint/directory.h)
  std::string tensorboard() const { return in("tensorboard"); }      // a folder
  std::string outputs() const { return in("evaluated-outputs"); }    // a folder, of `estrain evaluate` alone
  std::string rows() const { return in("evaluation-rows"); }         // a folder, for train.metrics_file
  std::string traces() const { return in("traces"); }                // a folder, for profiles of steps

  // What happened.
  std::string events() const { return in("events.jsonl"); }        // starts, losses, resizes, the end
  std::string metrics() const { return in("metrics.jsonl"); }      // the losses of each step, evaluations
  std::string fingerprints() const { return in("fingerprints"); }  // the digests of each step
  std::string open_metrics() const { return in("metrics.prom"); }  // the newest figures, for Prometheus
  std::string verdict() const { return in("verdict.json"); }       // how the last launch ended
  std::string scribe_log() const { return in("scribe.log"); }
  std::string courier_log() const { return in("courier.log"); }
  std::string relay_log() const { return in("relay.log"); }
  std::string worker_log(int64_t worker) const { return in("worker-") + std::to_string(worker) + ".log"; }

  // The launcher and the hosts at work.
  std::string lock_file() const { return in("lock"); }
  std::string control_socket() const { return in(kControlSocket); }
  std::string hosts() const { return in("hosts"); }  // a folder, with a file for each agent
  std::string host_file(const std::string& host) const { return hosts() + "/" + host + ".json"; }
  std::string network_key() const { return in("network.key"); }    // of the hosts' connections
  std::string network_term() const { return in("network.term"); }  // which launcher leads

 private:
  std::string in(const char* name) const { return path_ + "/" + name; }

  std::string path_;
};

}  // namespace estrain
