#include "cmd/export_program.h"

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"
#include "core/formats/program/write_program.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::cmd {
namespace {

using checkpoint::DType;
using checkpoint::StateTensor;
using program::StoredTensor;
using program::Type;

// The type of a program's tensor in a checkpoint.
DType dtype_of(Type type) {
  switch (type) {
    case Type::f32:
      return DType::f32;
    case Type::f64:
      return DType::f64;
    case Type::i64:
      return DType::i64;
    case Type::i32:
      return DType::i32;
    case Type::u8:
    case Type::boolean:
      return DType::u8;
    default:
      break;
  }
  throw Error(Fault::bug, "a type that no checkpoint holds");
}

WrittenProgram program_of_job(const checkpoint::CheckpointFile& from) {
  const spec::ModelSection model = spec::parse_text(from.meta().spec, from.path()).model;
  if (model.name == "program" && !model.eval_file.empty()) return {model.eval_file};
  if (model.name == "program") return {model.file, true};
  throw Error::make(Fault::usage, "{}: the job trains {}, no exported program", from.path(), model.name)
      .advise("--format pt2 is for model.name = \"program\"; safetensors and hdf5 are for every model");
}

Error another_model(const StoredTensor& tensor, const std::string& program, const std::string& checkpoint) {
  return Error::make(Fault::mismatch, "{}: its {} is not that of {}", program, tensor.name, checkpoint)
      .advise("give the program that the run trained, or its evaluation program, with --program");
}

}  // namespace

WrittenProgram export_program(const checkpoint::CheckpointFile& from, const ProgramExport& what,
                              const std::string& out) {
  WrittenProgram written = what.program.empty() ? program_of_job(from) : WrittenProgram{what.program};
  const std::string& path = written.program;
  const data::FileBytes file = data::FileBytes::map(path);
  const checkpoint::ModelReader weights(from, what.weights);
  const auto fill = [&](const StoredTensor& tensor, std::byte* to) {
    const StateTensor* found = weights.find(tensor.name);
    if (found == nullptr && !tensor.persistent) return;  // a constant
    if (found == nullptr || found->shape != tensor.sizes || found->dtype != dtype_of(tensor.type))
      throw another_model(tensor, path, from.path());
    weights.read(*found, to);
  };
  checkpoint::write_whole_file(out, program::with_weights(file.bytes, path, fill));
  return written;
}

}  // namespace estrain::cmd
