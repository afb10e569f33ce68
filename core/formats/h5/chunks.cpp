#include "core/formats/h5/chunks.h"

#include <fmt/ranges.h>
#include <hdf5.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "core/formats/h5/failure.h"
#include "core/formats/h5/filters.h"
#include "core/formats/h5/handle.h"

namespace estrain::h5 {
namespace {

constexpr uint64_t kBytesOfChecksum = 4;  // of fletcher32
constexpr hsize_t kMostLookedAt = 4096;   // chunks without filters, each of which HDF5 looks for in all
using Bytes = std::span<const uint8_t>;

Error too_short(const std::string& where, std::span<const hsize_t> at, uint64_t has, uint64_t needed) {
  return Error::make(Fault::corrupt, "{}: the chunk at element ({}) holds {} bytes, and a chunk has {}", where,
                     fmt::join(at, ", "), has, needed)
      .advise("the file is damaged: write it again, for example with h5py");
}

// Returns how many bytes `stored` inflates to, `most` at most; nothing: it is damaged, as HDF5 will say.
std::optional<uint64_t> inflated_bytes(Bytes stored, uint64_t most) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return std::nullopt;
  std::array<uint8_t, 65536> out;
  uint64_t bytes = 0;
  int status = Z_OK;
  while (status == Z_OK && bytes < most) {
    if (stream.avail_in == 0) {
      stream.next_in = const_cast<uint8_t*>(stored.data());
      stream.avail_in = static_cast<uInt>(std::min<size_t>(stored.size(), UINT32_MAX));
      stored = stored.subspan(stream.avail_in);
    }
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(out.size());
    status = inflate(&stream, Z_NO_FLUSH);
    bytes += out.size() - stream.avail_out;
  }
  inflateEnd(&stream);
  return status == Z_OK || status == Z_STREAM_END ? std::optional(std::min(bytes, most)) : std::nullopt;
}

// Returns the bytes of a stored chunk behind its filters, at least, where they are fewer than `needed`; nothing: not
// known. `mask`: of the filters left out.
std::optional<uint64_t> bytes_behind(const std::vector<ChunkFilter>& filters, uint32_t mask, Bytes stored,
                                     uint64_t needed) {
  const auto is_left_out = [&](size_t i) { return i < 32 && (mask >> i & 1) != 0; };
  uint64_t bytes = stored.size();
  bool are_at_hand = true;  // the bytes of this moment begin `stored`
  for (size_t i = filters.size(); i-- > 0;) {
    if (is_left_out(i)) continue;
    switch (filters[i].id) {
      case H5Z_FILTER_FLETCHER32:
        if (bytes < kBytesOfChecksum) return 0;
        bytes -= kBytesOfChecksum;
        break;
      case H5Z_FILTER_SHUFFLE:
        are_at_hand = false;
        break;
      case kLzf: {
        const std::optional<size_t> size = are_at_hand ? lzf_size(stored.first(bytes)) : std::nullopt;
        if (!size) return std::nullopt;
        bytes = *size;
        are_at_hand = false;
        break;
      }
      case H5Z_FILTER_DEFLATE: {
        if (!are_at_hand) return std::nullopt;
        const std::optional<uint64_t> inflated =
            inflated_bytes(stored.first(bytes), needed + i * kBytesOfChecksum);  // of checksums before
        if (!inflated) return std::nullopt;
        bytes = *inflated;
        are_at_hand = false;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return bytes;
}

class StoredChunks {
 public:
  StoredChunks(hid_t dataset, hid_t plan, const std::string& where)
      : dataset_(dataset),
        where_(where),
        space_(check(H5Dget_space(dataset), Fault::corrupt, where), H5Sclose),
        filters_(filters_of(dataset, where)),
        needed_(bytes_of_chunk(dataset, where)) {
    rank_ = static_cast<size_t>(check(H5Pget_chunk(plan, H5S_MAX_RANK, chunk_.data()), Fault::corrupt, where));
    check(H5Sget_simple_extent_dims(space_.get(), shape_.data(), nullptr), Fault::corrupt, where);
    unsigned options = 0;
    check(H5Pget_chunk_opts(plan, &options), Fault::corrupt, where);
    leaves_edges_ = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    const Handle file(check(H5Iget_file_id(dataset), Fault::corrupt, where), H5Fclose);
    check(H5Fget_filesize(file.get(), &bytes_of_file_), Fault::corrupt, where);
  }

  void look_at_unfiltered() const {
    hsize_t chunks = 0;
    check(H5Dget_num_chunks(dataset_, space_.get(), &chunks), Fault::corrupt, where_);
    const bool is_whole = H5Dget_storage_size(dataset_) >= chunks * needed_;
    if (is_whole && chunks > kMostLookedAt) return;
    for (hsize_t i = 0; i < chunks; ++i) {
      std::array<hsize_t, H5S_MAX_RANK> at{};
      hsize_t bytes = 0;
      check(H5Dget_chunk_info(dataset_, space_.get(), i, at.data(), nullptr, nullptr, &bytes), Fault::corrupt, where_);
      if (bytes < needed_) throw too_short(where_, std::span(at).first(rank_), bytes, needed_);
    }
  }

  // Of the rows from `first` to before `end`.
  void look_at_filtered(hsize_t first, hsize_t end) const {
    std::array<hsize_t, H5S_MAX_RANK> at{};
    std::vector<uint8_t> stored;
    at[0] = first / chunk_[0] * chunk_[0];
    while (at[0] < end) {
      if (!leaves_edges_ || !is_partial(at)) look_at(at, stored);
      for (size_t axis = rank_; axis-- > 0;) {
        at[axis] += chunk_[axis];
        if (axis == 0 || at[axis] < shape_[axis]) break;
        at[axis] = 0;
      }
    }
  }

  bool has_filters() const { return !filters_.empty(); }

 private:
  using Place = std::array<hsize_t, H5S_MAX_RANK>;

  bool is_partial(const Place& at) const {
    for (size_t axis = 0; axis < rank_; ++axis) {
      if (shape_[axis] - at[axis] < chunk_[axis]) return true;
    }
    return false;
  }

  // HDF5 fills in for a chunk that is not stored. It tells no size of such a chunk, or 0; and H5Dread tells any other
  // failure.
  void look_at(const Place& at, std::vector<uint8_t>& stored) const {
    hsize_t bytes = 0;
    if (H5Dget_chunk_storage_size(dataset_, at.data(), &bytes) < 0) {
      H5Eclear2(H5E_DEFAULT);
      return;
    }
    if (bytes == 0) return;
    if (bytes > bytes_of_file_)
      throw Error::make(Fault::corrupt, "{}: the chunk at element ({}) is stored in more bytes than the file has",
                        where_, fmt::join(std::span(at).first(rank_), ", "));
    stored.resize(bytes);
    uint32_t mask = 0;
    check(H5Dread_chunk(dataset_, H5P_DEFAULT, at.data(), &mask, stored.data()), Fault::corrupt, where_);
    const std::optional<uint64_t> behind = bytes_behind(filters_, mask, stored, needed_);
    if (behind && *behind < needed_) throw too_short(where_, std::span(at).first(rank_), *behind, needed_);
  }

  const hid_t dataset_;
  const std::string& where_;
  const Handle space_;
  const std::vector<ChunkFilter> filters_;
  const uint64_t needed_;  // bytes of a whole chunk
  size_t rank_ = 0;
  Place chunk_{}, shape_{};
  bool leaves_edges_ = false;  // chunks at the edge have no filters
  hsize_t bytes_of_file_ = 0;
};

}  // namespace

bool require_stored_chunks(int64_t dataset, int64_t first, int64_t count, const std::string& where) {
  const Handle plan(check(H5Dget_create_plist(dataset), Fault::corrupt, where), H5Pclose);
  if (H5Pget_layout(plan.get()) != H5D_CHUNKED) return true;
  const StoredChunks chunks(dataset, plan.get(), where);
  if (chunks.has_filters()) {
    chunks.look_at_filtered(static_cast<hsize_t>(first), static_cast<hsize_t>(first) + static_cast<hsize_t>(count));
    return false;
  }
  chunks.look_at_unfiltered();
  return true;
}

}  // namespace estrain::h5
