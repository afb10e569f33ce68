#include "core/formats/h5/elsewhere.h"

#include <hdf5.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "core/base/process/child_process.h"
#include "core/formats/h5/chunks.h"
#include "core/formats/h5/failure.h"
#include "core/formats/h5/file.h"
#include "core/formats/h5/filters.h"
#include "core/formats/h5/open_file.h"

namespace estrain::h5 {
namespace {

namespace fs = std::filesystem;

constexpr int kMostInARow = 16;
constexpr const char* kBesideAdvice =
    "put the file back: it is looked for beside the file that leads to it, or write the data into one file "
    "(h5repack does not: copy the arrays, for example with h5py)";

// The state of a thread while it follows links.
struct Following {
  int depth = 0;
  std::optional<Error> refusal;
  std::vector<std::string>* found = nullptr;
};

Following& following() {
  thread_local Following state;
  return state;
}

// A further file that leads to another file.
class Deeper {
 public:
  Deeper() {
    if (++following().depth <= kMostInARow) return;
    --following().depth;
    throw Error::make(Fault::mismatch, "leads through more than {} files", kMostInARow)
        .advise("look for links in a circle");
  }
  ~Deeper() { --following().depth; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
};

Error leads_to(const std::string& path, const std::string& what) {
  return Error::make(Fault::io, "leads to {}: {}", path, what).advise(kBesideAdvice);
}

// Reads a text from HDF5, which tells the length first.
template <typename Read>
std::string text_by(Read read) {
  const ssize_t length = check(read(nullptr, 0), Fault::corrupt, "a name");
  std::string text(static_cast<size_t>(length) + 1, '\0');
  read(text.data(), text.size());
  text.pop_back();
  return text;
}

std::string file_of(hid_t object) {
  return text_by([&](char* out, size_t room) { return H5Fget_name(object, out, room); });
}

// Returns the places where HDF5 looks for a file named in `from`, in HDF5's order.
std::vector<fs::path> places_of(const fs::path& from, const fs::path& name) {
  std::vector<fs::path> places;
  if (name.is_absolute()) places.push_back(name);
  const fs::path part = name.is_absolute() ? name.filename() : name;
  places.push_back(from.parent_path() / part);
  places.push_back(part);
  std::error_code failed;
  const fs::path real = fs::canonical(from, failed);
  if (!failed) places.push_back(real.parent_path() / part);
  return places;
}

// Returns the path of the file, which exists and is regular.
std::string find_file(const std::string& from, const std::string& name) {
  const std::vector<fs::path> places = places_of(from, name);
  for (const fs::path& place : places) {
    struct stat status {};
    if (::stat(place.c_str(), &status) != 0) continue;
    if (!S_ISREG(status.st_mode)) throw leads_to(place.string(), "not a regular file");
    if (following().found != nullptr) following().found->push_back(place.string());
    return place.string();
  }
  throw leads_to(places.front().string(), "no such file");
}

Handle open_other(const std::string& path) {
  try {
    return open_file(path, H5F_ACC_RDONLY);
  } catch (const Error&) {
    throw leads_to(path, "no HDF5 file");
  }
}

// Returns the reason why HDF5 could not open an object of the other file.
Error cannot_open(const std::string& path, const std::string& name) {
  if (std::optional<Error> deeper = take_link_refusal()) return *deeper;
  return leads_to(path, "has no " + name);
}

bool is_on_disk(hid_t object) {
  const Handle file(H5Iget_file_id(object), H5Fclose);
  const Handle plan(H5Fget_access_plist(file.get()), H5Pclose);
  return H5Pget_driver(plan.get()) == H5FD_SEC2;
}

hid_t open_linked(hid_t group, const void* value, size_t size) {
  const char *name = nullptr, *object = nullptr;
  unsigned flags = 0;
  check(H5Lunpack_elink_val(value, size, &flags, &name, &object), Fault::corrupt, "an external link");
  if (!is_on_disk(group)) throw Error(Fault::corrupt, "leads to another file, which no checkpoint does");
  const Deeper deeper;
  const std::string path = find_file(file_of(group), name);
  const Handle file = open_other(path);  // the object keeps the file open
  const hid_t id = H5Oopen(file.get(), object, H5P_DEFAULT);
  if (id < 0) throw cannot_open(path, object);
  return id;
}

// Called by HDF5, which takes no exceptions.
hid_t follow(const char*, hid_t group, const void* value, size_t size, hid_t, hid_t) {
  try {
    return open_linked(group, value, size);
  } catch (const Error& error) {
    following().refusal = error;
  } catch (const std::exception& error) {
    following().refusal = Error(Fault::io, error.what());
  }
  return -1;
}

ssize_t query(const char*, const void* value, size_t size, void* out, size_t room) {
  if (out != nullptr) std::copy_n(static_cast<const char*>(value), std::min(size, room), static_cast<char*>(out));
  return static_cast<ssize_t>(size);
}

// Visits a dataset's sources, and their sources.
class Sources {
 public:
  explicit Sources(bool looks_at_chunks) : looks_at_chunks_(looks_at_chunks) {}

  void visit(hid_t dataset) {
    if (H5Dget_offset(dataset) != HADDR_UNDEF) return;  // contiguous, in its own file
    const Handle plan(check(H5Dget_create_plist(dataset), Fault::corrupt, "its properties"), H5Pclose);
    if (H5Pget_layout(plan.get()) == H5D_VIRTUAL) return visit_virtual(dataset, plan.get());
    if (H5Pget_external_count(plan.get()) > 0) throw raw_files(plan.get());
  }

 private:
  static Error raw_files(hid_t plan) {
    char name[4096] = {};
    off_t offset = 0;
    hsize_t size = 0;
    H5Pget_external(plan, 0, sizeof name - 1, name, &offset, &size);
    return Error::make(Fault::mismatch, "has its elements in raw files (external storage), the first is {}", name)
        .advise("copy the array into an HDF5 file, for example with h5py: new[\"images\"] = old[\"images\"][:]");
  }

  void visit_virtual(hid_t dataset, hid_t plan) {
    if (!environment_variable("HDF5_VDS_PREFIX").value_or("").empty())
      throw Error(Fault::mismatch, "is a virtual dataset, whose sources HDF5_VDS_PREFIX has looked for elsewhere")
          .advise("unset HDF5_VDS_PREFIX: sources are looked for beside the file");
    const Deeper deeper;
    size_t count = 0;
    check(H5Pget_virtual_count(plan, &count), Fault::corrupt, "its sources");
    for (size_t i = 0; i < count; ++i) visit_source(dataset, plan, i);
  }

  void visit_source(hid_t dataset, hid_t plan, size_t i) {
    const std::string file =
        text_by([&](char* out, size_t room) { return H5Pget_virtual_filename(plan, i, out, room); });
    const std::string name =
        text_by([&](char* out, size_t room) { return H5Pget_virtual_dsetname(plan, i, out, room); });
    if ((file + name).find('%') != std::string::npos)
      throw Error::make(Fault::mismatch, "is a virtual dataset of any number of sources, {}: {}", file, name)
          .advise("name each source in the virtual dataset");
    const std::string own = file_of(dataset);
    const std::string path = file == "." ? own : find_file(own, file);
    const auto [known, is_new] = sizes_.try_emplace({path, name});
    if (is_new) known->second = size_of(path, name);
    const Handle taken(check(H5Pget_virtual_srcspace(plan, i), Fault::corrupt, "its sources"), H5Sclose);
    const Handle filled(check(H5Pget_virtual_vspace(plan, i), Fault::corrupt, "its sources"), H5Sclose);
    if (!fits(taken.get(), filled.get(), known->second))
      throw leads_to(path, name + " has become smaller than the part that is taken of it");
  }

  std::vector<hsize_t> size_of(const std::string& path, const std::string& name) {
    const Handle file = open_other(path);
    const Handle source(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
    if (source.get() < 0) throw cannot_open(path, name);
    visit(source.get());
    require_whole_chunks(source.get(), path + ": " + name);
    const Handle space(check(H5Dget_space(source.get()), Fault::corrupt, path), H5Sclose);
    std::vector<hsize_t> size(
        static_cast<size_t>(check(H5Sget_simple_extent_ndims(space.get()), Fault::corrupt, path)));
    check(H5Sget_simple_extent_dims(space.get(), size.data(), nullptr), Fault::corrupt, path);
    if (looks_at_chunks_ && !size.empty())
      require_stored_chunks(source.get(), 0, static_cast<int64_t>(size[0]), path + ": " + name);
    return size;
  }

  // Returns whether a source of this size has all elements taken from it: HDF5 would fill in for missing elements.
  static bool fits(hid_t taken, hid_t filled, const std::vector<hsize_t>& size) {
    if (H5Sget_select_type(taken) == H5S_SEL_ALL) {
      const hssize_t needed = H5Sget_select_npoints(filled);
      return std::accumulate(size.begin(), size.end(), hsize_t{1}, std::multiplies<>()) >= static_cast<hsize_t>(needed);
    }
    std::vector<hsize_t> first(H5S_MAX_RANK), last(H5S_MAX_RANK);
    if (H5Sget_select_bounds(taken, first.data(), last.data()) < 0) {
      H5Eclear2(H5E_DEFAULT);  // without a limit: as much as there is
      return true;
    }
    return H5Sget_simple_extent_ndims(taken) == static_cast<int>(size.size()) &&
           std::ranges::equal(size, std::span(last).first(size.size()), std::greater<>());
  }

  const bool looks_at_chunks_;
  std::map<std::pair<std::string, std::string>, std::vector<hsize_t>> sizes_;
};

}  // namespace

void take_over_external_links() {
  const H5L_class_t external = {
      H5L_LINK_CLASS_T_VERS, H5L_TYPE_EXTERNAL, "external", nullptr, nullptr, nullptr, follow, nullptr, query};
  check(H5Lregister(&external), Fault::bug, "HDF5's external links");
}

std::optional<Error> take_link_refusal() { return std::exchange(following().refusal, std::nullopt); }

void require_sources(int64_t dataset, const std::string& where, bool looks_at_chunks) {
  with_context(where, [&] { Sources(looks_at_chunks).visit(dataset); });
}

std::vector<std::string> other_files(const std::string& path) {
  std::vector<std::string> found, files;
  following().found = &found;
  try {
    const Group root = File::open(path).root();
    for (const Child& child : root.children()) {
      if (child.kind != Child::Kind::dataset) continue;
      try {
        (void)root.dataset(child.name);
      } catch (const Error&) {
        // The reader of the dataset tells the reason.
      }
    }
  } catch (const Error&) {
  }
  following().found = nullptr;
  for (const std::string& file : found)
    if (file != path && std::ranges::find(files, file) == files.end()) files.push_back(file);
  return files;
}

}  // namespace estrain::h5
