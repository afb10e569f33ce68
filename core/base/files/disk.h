#pragma once
// Gathers the calls that let files survive a power cut: a test can cut the power between any two calls. Writing is not
// among these calls: unsynced data may be lost at any time.

#include <string>
#include <string_view>

namespace estrain {

// Each call throws Fault::io with a path if the system refuses.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual void sync_file(int fd, const std::string& path) = 0;                     // path: for the message
  virtual void sync_folder(const std::string& path) = 0;                           // the names in the folder
  virtual void rename(const std::string& from, const std::string& to) = 0;         // replaces `to`
  virtual void make_link(const std::string& target, const std::string& path) = 0;  // symbolic; throws if `path` exists
  virtual void remove(const std::string& path) = 0;                                // a missing file is fine
};

Disk& real_disk();  // the system's calls, without state: for all threads

// Replaces a file like write_file_atomically() of files.h, but syncs and renames through `disk`.
void write_file_atomically(const std::string& path, std::string_view content, Disk& disk);

}  // namespace estrain
