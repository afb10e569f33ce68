#pragma once
// A new folder among the system's temporary files ($TMPDIR, else /tmp), for content which lives no longer than the
// object.

#include <string>
#include <string_view>

namespace estrain {

class TemporaryFolder {
 public:
  // Makes ".../estrain-PURPOSE-XXXXXX", for this user alone. Throws Fault::io.
  explicit TemporaryFolder(std::string_view purpose);
  // Removes the folder and all its content, unless keep() was called; ignores errors.
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  // Lets the folder outlive the object.
  void keep() { is_kept_ = true; }

 private:
  std::string path_;
  bool is_kept_ = false;
};

}  // namespace estrain
