#include "core/base/process/replace_program.h"

#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace estrain {

void replace_program(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  throw system_error("cannot execute " + program, errno);
}

}  // namespace estrain
