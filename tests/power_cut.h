#pragma once
// A disk that loses unsynced data, and produces every possible state of one folder after a power cut.
//
// Operations act on the real folder. In addition the disk keeps the durable state: the bytes of a file at its last
// sync, and the folder's entries at the folder's last sync. Later changes of entries may or may not have reached the
// disk, in any order. A file with unsynced bytes is empty, zeros, or incomplete.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files/disk.h"
#include "tests/scratch_folder.h"

class PowerCutDisk final : public estrain::Disk {
 public:
  // Calls `look` with a copy of `folder` for each state that a power cut before any call, or in cut(), may leave.
  PowerCutDisk(std::string folder, std::function<void(const std::string&)> look)
      : folder_(std::move(folder)), look_(std::move(look)) {}

  int64_t cuts() const { return cuts_; }

  // Cuts the power now.
  void cut() {
    notice_new_files();
    for (uint64_t survived = 0; survived < (uint64_t{1} << pending_.size()); ++survived)
      for (const Unsynced unsynced : {Unsynced::empty, Unsynced::zeros, Unsynced::half}) show(survived, unsynced);
  }

  void sync_file(int fd, const std::string& path) override {
    cut();
    estrain::real_disk().sync_file(fd, path);
    struct stat status {};
    ::fstat(fd, &status);
    synced_[files_.at(status.st_ino)] = bytes_of(path);
  }
  void sync_folder(const std::string& path) override {
    cut();
    estrain::real_disk().sync_folder(path);
    for (const Change& change : pending_) apply(change, entries_);
    pending_.clear();
  }
  void rename(const std::string& from, const std::string& to) override {
    cut();
    const Entry moved = seen_.at(name_of(from));
    estrain::real_disk().rename(from, to);
    note({{name_of(from), std::nullopt}, {name_of(to), moved}});
  }
  void make_link(const std::string& target, const std::string& path) override {
    cut();
    estrain::real_disk().make_link(target, path);
    note({{name_of(path), Entry{0, target}}});
  }
  void remove(const std::string& path) override {
    cut();
    estrain::real_disk().remove(path);
    if (seen_.contains(name_of(path))) note({{name_of(path), std::nullopt}});
  }

 private:
  struct Entry {
    int64_t file = 0;  // 0: a symbolic link
    std::string target;
  };
  using Entries = std::map<std::string, Entry>;
  using Change = std::map<std::string, std::optional<Entry>>;  // a change of one or two names
  enum class Unsynced { empty, zeros, half };

  static std::string name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

  static void apply(const Change& change, Entries& entries) {
    for (const auto& [name, entry] : change) {
      if (entry)
        entries[name] = *entry;
      else
        entries.erase(name);
    }
  }

  void note(const Change& change) {
    apply(change, seen_);
    pending_.push_back(change);
    forget_files_that_are_gone();
  }

  // An inode number may be reused by another file later.
  void forget_files_that_are_gone() {
    std::erase_if(files_, [&](const auto& file) {
      for (const auto& [name, entry] : seen_)
        if (entry.file == file.second) return false;
      return true;
    });
  }

  void notice_new_files() {
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      const std::string name = each.path().filename().string();
      if (each.is_symlink() || seen_.contains(name)) continue;
      struct stat status {};
      ::stat(each.path().c_str(), &status);
      files_[status.st_ino] = ++num_files_;
      note({{name, Entry{num_files_, ""}}});
    }
    for (const auto& [name, entry] : seen_)
      if (entry.file != 0) written_[entry.file] = bytes_of(folder_ + "/" + name);
  }

  std::string bytes_left(int64_t file, Unsynced unsynced) const {
    const std::string& written = written_.at(file);
    if (const auto synced = synced_.find(file); synced != synced_.end() && synced->second == written) return written;
    if (unsynced == Unsynced::empty) return "";
    if (unsynced == Unsynced::zeros) return std::string(written.size(), '\0');
    return written.substr(0, written.size() / 2);
  }

  void show(uint64_t survived, Unsynced unsynced) {
    Entries left = entries_;
    for (size_t i = 0; i < pending_.size(); ++i)
      if ((survived >> i & 1) != 0) apply(pending_[i], left);
    const ScratchFolder copy;
    for (const auto& [name, entry] : left) {
      if (entry.file == 0)
        std::filesystem::create_symlink(entry.target, copy / name);
      else
        replace_bytes(copy / name, bytes_left(entry.file, unsynced));
    }
    ++cuts_;
    look_(copy.path());
  }

  std::string folder_;
  std::function<void(const std::string&)> look_;
  int64_t cuts_ = 0, num_files_ = 0;
  Entries entries_;              // after the last sync of the folder
  Entries seen_;                 // in the folder now
  std::vector<Change> pending_;  // not yet synced
  std::map<ino_t, int64_t> files_;
  std::map<int64_t, std::string> synced_, written_;
};
