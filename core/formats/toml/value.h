#pragma once
// A TOML document as plain data: every value and every key has its place in the text. Hides the types of the TOML
// library.
//
// Members of a table are in the order of the text, not sorted by name.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace estrain::toml {

// A place in a file, or a command-line argument instead (line 0).
struct Location {
  std::string source;   // "job.toml", or "--set data.batch=16"
  uint32_t line = 0;    // from 1
  uint32_t column = 0;  // from 1, in characters

  bool in_file() const { return line > 0; }
  std::string text() const;  // "job.toml:7:1", or the source alone
};

struct KeyValue;
struct Value;
using Array = std::vector<Value>;
using Table = std::vector<KeyValue>;
struct Date {};  // dates and times: no key has a date, and only the kind is kept

struct Value {
  std::variant<std::string, int64_t, double, bool, Date, Array, Table> data;
  Location at;  // where the value begins

  const std::string* string() const { return std::get_if<std::string>(&data); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data); }
  const bool* boolean() const { return std::get_if<bool>(&data); }
  const Array* array() const { return std::get_if<Array>(&data); }
  const Table* table() const { return std::get_if<Table>(&data); }
  Table* table() { return std::get_if<Table>(&data); }
  std::optional<double> number() const;  // a real or an integer

  // A description for messages: `the string "16"`, "the integer 3", "an array", "a table".
  std::string describe() const;
};

struct KeyValue {
  std::string key;
  Location at;  // where the key begins
  Value value;
};

// Returns the member called `key`, or null.
const KeyValue* find(const Table& table, std::string_view key);
KeyValue* find(Table& table, std::string_view key);

}  // namespace estrain::toml
