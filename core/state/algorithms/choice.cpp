#include "core/state/algorithms/choice.h"

#include "core/base/json/json.h"

namespace estrain::algorithms {

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

}  // namespace estrain::algorithms
