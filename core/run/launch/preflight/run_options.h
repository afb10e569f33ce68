#pragma once
// The exceptions which a run was asked to accept, with effects on all launchers and workers of the run.

#include <string>
#include <string_view>

namespace estrain::launch {

struct RunOptions {
  bool allow_mixed = false;    // devices of different kinds, whose bits differ below D2
  bool oversubscribe = false;  // several workers on one GPU
  bool cuda_streams = false;   // the state has a place for the ESTs' CUDA generators
  std::string own_host;        // the launcher's host in device lists; empty: it has no name
  std::string listen;          // where agents without the run directory join; empty: nowhere

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("allow_mixed", self.allow_mixed);
    visit("oversubscribe", self.oversubscribe);
    visit("cuda_streams", self.cuda_streams);
    visit("own_host", self.own_host);
    visit("listen", self.listen);
  }
};

}  // namespace estrain::launch
