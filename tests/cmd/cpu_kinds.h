#pragma once
// The kinds of CPU that this machine can imitate, the widest kind first.

#include "command.h"

namespace estrain::testing {

inline Words kinds() {
  Words all = {"cpu:sse"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.insert(all.begin(), "cpu:avx2");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) all.insert(all.begin(), "cpu:avx512");
  return all;
}

// All kinds in one device list.
inline std::string all_kinds() {
  std::string all;
  for (const std::string& kind : kinds()) all += (all.empty() ? "" : ",") + kind;
  return all;
}

}  // namespace estrain::testing
