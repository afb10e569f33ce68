#pragma once
// An exported PyTorch program (torch.export, the "training IR": ATen's operators before autograd) as plain data: what a
// .pt2 file holds besides Python's pickles, every name and index checked. Nothing here knows torch.
//
// A program is a list of calls. Each takes constants and values, and makes values; values are numbered, and each is
// made once, before it is used. Graphs inside the graph (`with torch.no_grad()`, `with torch.autocast(...)`) are spread
// out into the list; what they set stands at each of their calls.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace estrain::program {

// Numbers of torch._export.serde.schema.ScalarType.
enum class Type : uint8_t {
  u8 = 1,
  i8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  c32 = 9,
  c64 = 10,
  c128 = 11,
  boolean = 12,
  bf16 = 13,
};
size_t type_size(Type type);
std::string_view type_name(Type type);  // torch's: "float32", "bool", …

// One size of a tensor: a number, or a symbol whose value the mini-batch gives.
struct Size {
  int64_t number = 0;
  std::string symbol{};  // empty: `number` holds
  bool operator==(const Size&) const = default;
};
// "[s0, 3, 32, 32]"
std::string sizes_text(const std::vector<Size>& sizes);

struct Range {
  int64_t low = 0;
  std::optional<int64_t> high;
};

// A tensor that the file brings. `bytes` lie in the file's memory: contiguous, `elements` of `type`.
struct StoredTensor {
  std::string name;  // of the state_dict, or of the constant
  Type type = Type::f32;
  std::vector<int64_t> sizes{};
  bool requires_grad = false;
  std::span<const std::byte> bytes{};
  int value = -1;          // its number
  std::string alias_of{};  // another name of the same tensor, which stands before it (tied weights)
  bool persistent = true;  // of a buffer: stands in the state_dict
};

struct UserInput {
  std::string name;
  Type type = Type::f32;
  std::vector<Size> sizes;
  int value = -1;
};

struct None {};
struct Value {
  int number;
};
struct Layout {
  int64_t number;  // of the schema
};
struct MemoryFormat {
  int64_t number;  // of the schema
};
struct Device {
  std::string type;
};
// A list of values, numbers and gaps.
using Item = std::variant<None, Value, int64_t>;

using Argument =
    std::variant<None, Value, bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<bool>, std::vector<Item>, Type, Layout, MemoryFormat, Device>;

// Settings of `with` blocks for their calls; unset: those of the surroundings.
struct Modes {
  std::optional<bool> grad;
  struct Autocast {
    bool enabled;
    Type type;
    bool cache;
    int64_t outermost;  // number of the block that it is, or lies, in
  };
  std::optional<Autocast> autocast;
};

struct Call {
  bool is_arithmetic = false;  // of sizes, then `name` is Python's: "add", "floordiv"
  std::string name;            // "aten::conv2d"
  std::string overload;        // "" for the default one
  std::vector<std::pair<std::string, Argument>> arguments;
  struct Result {
    bool is_list = false;
    std::vector<int> values;  // one unless it is a list; none: nobody wants it
  };
  std::vector<Result> results;
  size_t modes = 0;    // index into Program::modes
  std::string module;  // of the user's: "encoder.layer.0"; empty: the outermost
  std::string line;    // of the user's source: "net.py:12"; empty: unknown

  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }
  // "encoder.layer.0 (net.py:12)"
  std::string place() const;
};

struct Program {
  std::string path;                  // for messages
  std::string torch_version;         // "2.11.0+cu130"
  bool is_marked_training = false;   // the export says so (examples/export)
  std::vector<std::string> modules;  // every module's name, in the order of named_modules()
  std::vector<StoredTensor> parameters, buffers, constants;
  std::vector<UserInput> inputs;                       // tensors; what else a user gave is fixed in the calls
  std::vector<int> outputs;                            // values of the tensors that the user gets
  std::vector<std::pair<std::string, int>> mutations;  // buffer, and the value that it takes after the calls
  std::vector<Modes> modes;
  std::vector<Call> calls;
  std::map<std::string, Range> ranges;  // of symbols
  int values = 0;
};

// Reads `file`, which must outlive the program. Throws Fault::corrupt for what is no sound program; Fault::mismatch for
// one of a schema, or with contents, that are not known, by name.
Program read_program(std::span<const std::byte> file, const std::string& path);

}  // namespace estrain::program
