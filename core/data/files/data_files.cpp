#include "core/data/files/data_files.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

#include "core/base/error.h"

namespace estrain::data {
namespace {

FileTree list(const FileName& name) { return FileTree::list(name.path, name.endings); }

bool is_compressed(const FileName& name) { return name.kind == FileKind::content && name.path.ends_with(".gz"); }

DataFile open_one(const FileName& name) {
  switch (name.kind) {
    case FileKind::content:
      return {name.what, name.path, FileBytes::open(name.path)};
    case FileKind::as_it_is:
      return {name.what, name.path, FileBytes::map(name.path)};
    case FileKind::listed:
      break;
  }
  return {name.what, name.path, {}, std::make_shared<const FileTree>(list(name))};
}

}  // namespace

std::vector<DataFile> open_files(const std::vector<FileName>& names) {
  std::vector<std::future<DataFile>> opened;
  for (const FileName& name : names) {
    const bool aside = is_compressed(name) && &name != &names.front();
    opened.push_back(std::async(aside ? std::launch::async : std::launch::deferred, open_one, name));
  }
  std::vector<DataFile> files;
  for (std::future<DataFile>& file : opened) files.push_back(file.get());
  return files;
}

void keep_decompressed(const std::vector<FileName>& names) {
  std::vector<FileName> compressed;
  std::ranges::copy_if(names, std::back_inserter(compressed), is_compressed);
  for (DataFile& file : open_files(compressed)) FileBytes::keep(std::move(file.content));
}

std::optional<FileStamp> stamp_of(const FileName& name) {
  if (name.kind != FileKind::listed) return FileStamp::of(name.path);
  try {
    return list(name).stamp();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace estrain::data
