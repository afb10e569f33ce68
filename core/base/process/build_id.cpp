#include "core/base/process/build_id.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstring>
#include <functional>

namespace estrain {
namespace {

// Notes are consecutive: each has a header, a name, a description.
uint64_t build_id_in(const char* notes, size_t size, size_t alignment) {
  const auto aligned = [alignment](size_t offset) { return (offset + alignment - 1) / alignment * alignment; };
  uint64_t id = 0;
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof note);
    const size_t name = at + sizeof note, description = aligned(name + note.n_namesz);
    if (description + note.n_descsz > size) break;
    at = aligned(description + note.n_descsz);
    const bool is_gnu =
        note.n_namesz == sizeof ELF_NOTE_GNU && std::memcmp(notes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0;
    if (is_gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz >= sizeof id)
      std::memcpy(&id, notes + description, sizeof id);
  }
  return id;
}

uint64_t build_id_of(const dl_phdr_info& object) {
  uint64_t id = 0;
  for (int i = 0; i < object.dlpi_phnum && id == 0; ++i) {
    const ElfW(Phdr)& part = object.dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const char*>(object.dlpi_addr + part.p_vaddr);
    id = build_id_in(notes, part.p_memsz, part.p_align == 8 ? 8 : 4);
  }
  return id;
}

bool holds(const dl_phdr_info& object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object.dlpi_phdr[i];
    const uintptr_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && address >= begin && address - begin < part.p_memsz) return true;
  }
  return false;
}

// Finds the note of the first loaded object that `is_meant`.
struct Search {
  std::function<bool(const dl_phdr_info&)> is_meant;
  uint64_t id = 0;

  static int look(dl_phdr_info* object, size_t, void* search) {
    auto& self = *static_cast<Search*>(search);
    if (!self.is_meant(*object)) return 0;
    self.id = build_id_of(*object);
    return 1;
  }
};

uint64_t find(std::function<bool(const dl_phdr_info&)> is_meant) {
  Search search{std::move(is_meant)};
  ::dl_iterate_phdr(&Search::look, &search);
  return search.id;
}

}  // namespace

uint64_t build_id_of_program() { return build_id_of_code(reinterpret_cast<const void*>(::getauxval(AT_PHDR))); }

uint64_t build_id_of_code(const void* address) {
  return find([address](const dl_phdr_info& object) { return holds(object, reinterpret_cast<uintptr_t>(address)); });
}

uint64_t build_id_of_library(std::string_view file_name) {
  return find([file_name](const dl_phdr_info& object) {
    const std::string_view path = object.dlpi_name;
    return path.substr(path.rfind('/') + 1) == file_name;
  });
}

}  // namespace estrain
