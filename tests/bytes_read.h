#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <string>

// Returns the number of bytes that this process has read from files so far.
inline int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string word;
  int64_t bytes = -1;
  file >> word >> bytes;
  REQUIRE(word == "rchar:");
  return bytes;
}
