#pragma once
// The exceptions which a run was asked to accept, with effects on all launchers and workers of the run.

#include <string>
#include <string_view>

#include "core/base/json/fields.h"

namespace estrain::launch {

struct RunOptions {
  bool allow_mixed = false;    // devices of different kinds, whose bits differ below D2
  bool oversubscribe = false;  // several workers on one GPU
  bool cuda_streams = false;   // the state has a place for the ESTs' CUDA generators
  std::string own_host;        // the launcher's host in device lists; empty: it has no name
  std::string listen;          // where agents without the run directory join; empty: nowhere

  ESTRAIN_FIELDS(allow_mixed, oversubscribe, cuda_streams, own_host, listen)
};

}  // namespace estrain::launch
