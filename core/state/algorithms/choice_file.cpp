#include "core/state/algorithms/choice_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"
#include "core/base/json/json.h"

namespace estrain::algorithms {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(2);
constexpr int64_t kLongestLeftAloneNs = 5'000'000;  // long enough for each waiting process to try again

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw system_error("cannot read " + path, errno);
  return status;
}

// Tells whether `path` still names the open file: a user may delete the file at any time.
bool stands_there(int fd, const std::string& path) {
  struct stat there {};
  return ::stat(path.c_str(), &there) == 0 && there.st_ino == status_of(fd, path).st_ino;
}

}  // namespace

std::string Choice::to_line() const {
  return Json{{"key", key}, {"device", device}, {"algorithm", algorithm}, {"libraries", libraries}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

Choice Choice::from_line(std::string_view line) {
  const Json json = parse_json(line, "a chosen algorithm");
  try {
    Choice choice = {json.at("key"), json.at("device"), json.at("algorithm"), json.at("libraries")};
    if (choice.key.empty() || choice.device.empty())
      throw Error(Fault::corrupt, "a chosen algorithm without operation or device");
    return choice;
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "not a chosen algorithm: {}", error.what());
  }
}

const Choice* Choices::find(std::string_view key, std::string_view device) const {
  const auto found = choices_.find({std::string(key), std::string(device)});
  return found == choices_.end() ? nullptr : &found->second;
}

const Choice* Choices::find_any(std::string_view key, std::string_view device) const {
  if (const Choice* own = find(key, device)) return own;
  const auto first = choices_.lower_bound({std::string(key), ""});
  return first == choices_.end() || first->second.key != key ? nullptr : &first->second;
}

void Choices::put(Choice choice) {
  auto place = std::pair(choice.key, choice.device);
  choices_.insert_or_assign(std::move(place), std::move(choice));
}

void Choices::for_each(const std::function<void(const Choice&)>& visit) const {
  for (const auto& [place, choice] : choices_) visit(choice);
}

std::string Choices::to_text() const {
  std::string text;
  for (const auto& [place, choice] : choices_) text += choice.to_line() + "\n";
  return text;
}

Choices Choices::from_text(std::string_view text, std::string_view source) {
  Choices choices;
  size_t line = 1;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1, ++line) {
    with_context(fmt::format("{}:{}", source, line),
                 [&] { choices.put(Choice::from_line(text.substr(begin, end - begin))); });
  }
  return choices;
}

Choices Choices::sound_from_text(std::string_view text) {
  Choices choices;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    try {
      choices.put(Choice::from_line(text.substr(begin, end - begin)));
    } catch (const Error&) {
    }
  }
  return choices;
}

Choices ChoiceFile::read() const { return Choices::from_text(read_file_if_present(path_).value_or(""), path_); }

Choices ChoiceFile::read_sound() const { return Choices::sound_from_text(read_file_if_present(path_).value_or("")); }

const Choices& ChoiceFile::look() {
  struct stat status {};
  try {
    if (::stat(path_.c_str(), &status) == 0) refresh(status);
  } catch (const Error&) {  // damaged, or a writer is just overwriting an unfinished line
  }
  return choices_;
}

ChoiceFile::Held::Held(ChoiceFile& file, UniqueFd lock)
    : file_(file), lock_(std::move(lock)), since_ns_(monotonic_ns()) {}

ChoiceFile::Held::~Held() {
  if (!lock_) return;
  const int64_t now = monotonic_ns();
  file_.left_alone_until_ns_ = now + std::min(now - since_ns_, kLongestLeftAloneNs);
}

void ChoiceFile::Held::add(const Choice& choice) {
  append_line(file_.path_, choice.to_line());
  file_.choices_.put(choice);
  const struct stat status = status_of(lock_.get(), file_.path_);
  file_.inode_ = status.st_ino;
  file_.bytes_ = status.st_size;
}

ChoiceFile::Held ChoiceFile::hold(const std::function<void()>& waiting) {
  const auto folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) make_folders(folder.string());
  std::this_thread::sleep_for(std::chrono::nanoseconds(left_alone_until_ns_ - monotonic_ns()));
  for (;;) {
    UniqueFd fd = open_own_file(path_, O_RDWR | O_CREAT);
    while (!take_lock(fd.get(), path_)) {
      if (waiting) waiting();
      std::this_thread::sleep_for(kBetweenTries);
    }
    if (!stands_there(fd.get(), path_)) continue;
    refresh(status_of(fd.get(), path_));
    return {*this, std::move(fd)};
  }
}

// Takes `status` from before the read, so lines added meanwhile are read again.
void ChoiceFile::refresh(const struct stat& status) {
  if (status.st_ino == inode_ && status.st_size == bytes_) return;
  choices_ = read();
  inode_ = status.st_ino;
  bytes_ = status.st_size;
}

}  // namespace estrain::algorithms
