#include "core/formats/h5/filters.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/h5/failure.h"
#include "core/formats/h5/handle.h"

namespace estrain::h5 {
namespace {

struct FilterName {
  H5Z_filter_t id;
  std::string_view name;
};

// The filters in use for arrays, of The HDF Group's list of registered filters.
constexpr std::array<FilterName, 16> kNames = {{{H5Z_FILTER_SZIP, "szip"},
                                                {305, "lzo"},
                                                {307, "bzip2"},
                                                {kLzf, "lzf"},
                                                {32001, "blosc"},
                                                {32004, "lz4"},
                                                {32008, "bitshuffle"},
                                                {32010, "fpzip"},
                                                {32013, "zfp"},
                                                {32015, "zstd"},
                                                {32017, "sz"},
                                                {32018, "fcidecomp"},
                                                {32019, "jpeg"},
                                                {32024, "sz3"},
                                                {32026, "blosc2"},
                                                {32029, "htj2k"}}};

std::atomic<bool>& plugins_allowed() {
  static std::atomic<bool> allowed = false;
  return allowed;
}

// HDF5 gives a stored chunk, and gets the original chunk. `values`, from h5py: revisions, bytes of a whole chunk, which
// require_whole_chunks() has compared with the dataset's.
size_t read_lzf(unsigned flags, size_t count, const unsigned* values, size_t bytes, size_t* room, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0) return 0;
  const std::span<const uint8_t> stored(static_cast<const uint8_t*>(*buffer), bytes);
  const std::optional<size_t> size = lzf_size(stored);
  // HDF5 reads a whole chunk from the returned buffer.
  if (!size || *size == 0 || (count >= 3 && *size < values[2])) return 0;
  void* chunk = H5allocate_memory(*size, false);
  if (chunk == nullptr) return 0;
  lzf_decompress(stored, static_cast<uint8_t*>(chunk));
  H5free_memory(*buffer);
  *buffer = chunk;
  *room = *size;
  return *size;
}

std::string name_of(H5Z_filter_t id, const char* stored) {
  const auto known = std::ranges::find(kNames, id, &FilterName::id);
  return known != kNames.end() ? std::string(known->name) : *stored != '\0' ? stored : "an unknown filter";
}

Error missing(H5Z_filter_t id, const char* stored, const std::string& where) {
  const char* rewrite =
      "rewrite the file with gzip or lzf, such as `h5repack -f GZIP=4 OLD NEW` where HDF5 has the filter";
  const char* plugins = plugins_allowed() ? "have HDF5_PLUGIN_PATH name the folder with the filter's plugin"
                                          : "let HDF5 load the filter's plugin: data.plugins = true, and "
                                            "HDF5_PLUGIN_PATH with the plugin's folder";
  return Error::make(Fault::mismatch, "{}: is stored by {} (HDF5's filter {}), which is not built in", where,
                     name_of(id, stored), id)
      .advise(fmt::format("{}; or {} (Python's hdf5plugin.PLUGIN_PATH is one)", rewrite, plugins));
}

void require_whole_chunks_of(const ChunkFilter& filter, hid_t dataset, const std::string& where) {
  if (filter.id != kLzf) return;
  const uint64_t declared = filter.values[2], bytes = bytes_of_chunk(dataset, where);
  if (declared >= bytes) return;
  throw Error::make(Fault::corrupt, "{}: declares chunks of {} bytes to LZF, and has chunks of {} bytes", where,
                    declared, bytes)
      .advise("write the file again, for example with h5py");
}

// Calls literals(bytes, count) and copy(distance, count) in order. Returns false if the input ends within a part, or
// copy() returns false.
template <typename Literals, typename Copy>
bool for_each_part(std::span<const uint8_t> in, Literals literals, Copy copy) {
  constexpr size_t first_copy = 32, long_copy = 7, least_copy = 2;
  for (size_t at = 0; at < in.size();) {
    const size_t head = in[at++];
    if (head < first_copy) {
      const size_t count = head + 1;
      if (count > in.size() - at) return false;
      literals(in.data() + at, count);
      at += count;
      continue;
    }
    size_t count = head >> 5;
    if (in.size() - at < (count == long_copy ? 2u : 1u)) return false;
    if (count == long_copy) count += in[at++];
    const size_t distance = ((head & 31) << 8 | in[at++]) + 1;
    if (!copy(distance, count + least_copy)) return false;
  }
  return true;
}

}  // namespace

void allow_plugins() {
  quiet();
  plugins_allowed() = true;
  H5PLset_loading_state(H5PL_ALL_PLUGIN);
}

void set_up_filters() {
  H5PLset_loading_state(0);
  const H5Z_class2_t lzf = {H5Z_CLASS_T_VERS, kLzf, 0, 1, "lzf", nullptr, nullptr, read_lzf};
  check(H5Zregister(&lzf), Fault::bug, "the filter LZF");
}

std::vector<ChunkFilter> filters_of(int64_t dataset, const std::string& where) {
  if (H5Dget_offset(dataset) != HADDR_UNDEF) return {};
  const Handle plan(check(H5Dget_create_plist(dataset), Fault::corrupt, where), H5Pclose);
  const int count = H5Pget_nfilters(plan.get());
  std::vector<ChunkFilter> filters;
  for (int i = 0; i < count; ++i) {
    char name[64] = {};
    unsigned flags = 0;
    ChunkFilter filter;
    size_t values = filter.values.size();
    filter.id = H5Pget_filter2(plan.get(), static_cast<unsigned>(i), &flags, &values, filter.values.data(),
                               sizeof name - 1, name, nullptr);
    filter.name = name;
    if (filter.id >= 0) filters.push_back(std::move(filter));
  }
  return filters;
}

uint64_t bytes_of_chunk(int64_t dataset, const std::string& where) {
  const Handle plan(check(H5Dget_create_plist(dataset), Fault::corrupt, where), H5Pclose);
  const Handle type(check(H5Dget_type(dataset), Fault::corrupt, where), H5Tclose);
  std::array<hsize_t, H5S_MAX_RANK> sizes{};
  const int rank = check(H5Pget_chunk(plan.get(), H5S_MAX_RANK, sizes.data()), Fault::corrupt, where);
  uint64_t bytes = H5Tget_size(type.get());
  for (const hsize_t size : std::span(sizes).first(static_cast<size_t>(rank)))
    if (__builtin_mul_overflow(bytes, size, &bytes)) return UINT64_MAX;
  return bytes;
}

void require_filters(int64_t dataset, const std::string& where) {
  for (const ChunkFilter& filter : filters_of(dataset, where)) {
    if (H5Zfilter_avail(filter.id) <= 0) throw missing(filter.id, filter.name.c_str(), where);
    require_whole_chunks_of(filter, dataset, where);
  }
}

void require_whole_chunks(int64_t dataset, const std::string& where) {
  for (const ChunkFilter& filter : filters_of(dataset, where)) require_whole_chunks_of(filter, dataset, where);
}

std::optional<size_t> lzf_size(std::span<const uint8_t> stored) {
  size_t size = 0;
  const bool whole = for_each_part(
      stored, [&](const uint8_t*, size_t count) { size += count; },
      [&](size_t distance, size_t count) {
        if (distance > size) return false;
        size += count;
        return true;
      });
  return whole ? std::optional(size) : std::nullopt;
}

void lzf_decompress(std::span<const uint8_t> stored, uint8_t* out) {
  for_each_part(
      stored,
      [&](const uint8_t* bytes, size_t count) {
        std::memcpy(out, bytes, count);
        out += count;
      },
      [&](size_t distance, size_t count) {
        for (; count > 0; --count, ++out) *out = *(out - distance);  // may overlap
        return true;
      });
}

}  // namespace estrain::h5
