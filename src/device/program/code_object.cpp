// SPDX-License-Identifier: Apache-2.0

#include "device/program/code_object.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace fairlead::device::program {
namespace {

constexpr std::string_view bundle_magic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr uint16_t machine_amdgpu = 224;
constexpr uint32_t note_metadata = 32;  // NT_AMDGPU_METADATA
// Of a sound image. HIP passes no more bytes to a kernel.
constexpr uint64_t most_bundled = 1024, most_parameter_bytes = 64 * 1024;

bool begins_with(CodeImage image, std::string_view magic) {
  return image.size() >= magic.size() && std::memcmp(image.data(), magic.data(), magic.size()) == 0;
}

CodeImage part(CodeImage image, uint64_t offset, uint64_t size) {
  return offset <= image.size() && size <= image.size() - offset ? image.subspan(offset, size) : CodeImage();
}

template <class Value>
std::optional<Value> read(CodeImage image, uint64_t offset) {
  Value value;
  const CodeImage bytes = part(image, offset, sizeof value);
  if (bytes.empty()) return {};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// ---- Bundles -------------------------------------------------------------------------------------------

struct Bundled {
  uint64_t offset, size;
  std::string_view target;  // "hipv4-amdgcn-amd-amdhsa--gfx90a"
};

// `visit` returns false to end.
template <class Visit>
void for_each_bundled(CodeImage image, Visit visit) {
  uint64_t at = bundle_magic.size();
  const uint64_t count = read<uint64_t>(image, at).value_or(0);
  at += sizeof count;
  for (uint64_t number = 0; number < std::min(count, most_bundled); ++number) {
    struct Entry {
      uint64_t offset, size, target_length;
    };
    const auto entry = read<Entry>(image, at);
    if (!entry) return;
    at += sizeof(Entry);
    const CodeImage target = part(image, at, entry->target_length);
    if (target.size() != entry->target_length) return;
    at += target.size();
    if (!visit(Bundled{
            entry->offset, entry->size, {reinterpret_cast<const char*>(target.data()), target.size()}}))
      return;
  }
}

// ---- Metadata: MessagePack -----------------------------------------------------------------------------

class Metadata {
 public:
  explicit Metadata(CodeImage bytes) : rest_(bytes) {}

  // The value of each key of a map; `visit` reads it.
  template <class Visit>
  void map(Visit visit) {
    const Item item = next();
    for (uint64_t left = item.kind == Kind::map ? item.value : 0; left > 0 && !rest_.empty(); --left)
      visit(next().text);
  }
  template <class Visit>
  void array(Visit visit) {
    const Item item = next();
    for (uint64_t left = item.kind == Kind::array ? item.value : 0; left > 0 && !rest_.empty(); --left)
      visit();
  }
  std::string_view text() { return next().text; }
  uint64_t number() { return next().value; }
  void skip() {
    for (uint64_t left = 1; left > 0 && !rest_.empty(); --left) {
      const Item item = next();
      if (item.kind == Kind::array) left += item.value;
      if (item.kind == Kind::map) left += 2 * item.value;
    }
  }

 private:
  enum class Kind : uint8_t { scalar, text, array, map };
  struct Item {
    Kind kind = Kind::scalar;
    uint64_t value = 0;  // or how many follow
    std::string_view text;
  };

  CodeImage bytes(uint64_t count) {
    if (count > rest_.size()) rest_ = {};  // damaged: nothing follows
    const CodeImage found = rest_.first(std::min<uint64_t>(count, rest_.size()));
    rest_ = rest_.subspan(found.size());
    return found;
  }
  uint64_t big_endian(size_t size) {
    uint64_t value = 0;
    for (const unsigned char byte : bytes(size)) value = value << 8 | byte;
    return value;
  }
  Item text_of(uint64_t size) {
    const CodeImage found = bytes(size);
    return {Kind::text, 0, {reinterpret_cast<const char*>(found.data()), found.size()}};
  }
  Item next() {
    const auto tag = static_cast<unsigned>(big_endian(1));
    if (tag < 0x80) return {Kind::scalar, tag, {}};
    if (tag < 0x90) return {Kind::map, tag & 0xf, {}};
    if (tag < 0xa0) return {Kind::array, tag & 0xf, {}};
    if (tag < 0xc0) return text_of(tag & 0x1f);
    // Kinds of which several tags, one after the other, have lengths or numbers of twice the size each.
    const auto following = [&](unsigned first, unsigned tags, size_t size) {
      return tag >= first && tag < first + tags ? size << (tag - first) : 0;
    };
    if (const size_t size = following(0xc4, 3, 1) + following(0xd9, 3, 1)) return text_of(big_endian(size));
    if (const size_t size = following(0xdc, 2, 2)) return {Kind::array, big_endian(size), {}};
    if (const size_t size = following(0xde, 2, 2)) return {Kind::map, big_endian(size), {}};
    // Numbers without a sign, with one, and of floating point; of the latter none is asked for.
    if (const size_t size = following(0xcc, 4, 1) + following(0xd0, 4, 1) + following(0xca, 2, 4))
      return {Kind::scalar, big_endian(size), {}};
    if (tag < 0xc0 || tag > 0xc3) rest_ = {};  // not nil, false, true: an extension, which does not occur
    return {};
  }

  CodeImage rest_;
};

void read_parameter(Metadata* metadata, std::vector<Parameter>* parameters) {
  Parameter parameter;
  bool hidden = false;
  metadata->map([&](std::string_view key) {
    if (key == ".offset")
      parameter.offset = metadata->number();
    else if (key == ".size")
      parameter.bytes = metadata->number();
    else if (key == ".value_kind")
      hidden = metadata->text().starts_with("hidden_");
    else if (key == ".actual_access")  // what the compiler has seen the kernel do
      parameter.access = metadata->text() == "read_only" ? Access::reads : Access::unknown;
    else
      metadata->skip();
  });
  if (!hidden) parameters->push_back(parameter);
}

bool is_sound(const Parameter& parameter) {
  return parameter.offset <= most_parameter_bytes && parameter.bytes <= most_parameter_bytes;
}

void read_metadata(CodeImage bytes, Kernels* kernels) {
  Metadata metadata(bytes);
  const auto read_kernel = [&] {
    std::string_view name;
    std::vector<Parameter> parameters;
    metadata.map([&](std::string_view key) {
      if (key == ".name")
        name = metadata.text();
      else if (key == ".args")
        metadata.array([&] { read_parameter(&metadata, &parameters); });
      else
        metadata.skip();
    });
    if (std::ranges::all_of(parameters, is_sound)) kernels->emplace(name, std::move(parameters));
  };
  metadata.map([&](std::string_view key) {
    if (key == "amdhsa.kernels")
      metadata.array(read_kernel);
    else
      metadata.skip();
  });
}

// ---- Code objects: ELF ---------------------------------------------------------------------------------

std::optional<Elf64_Ehdr> elf_header(CodeImage image) {
  const auto header = read<Elf64_Ehdr>(image, 0);
  const bool fits = header && begins_with(image, ELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
                    header->e_machine == machine_amdgpu && header->e_phentsize == sizeof(Elf64_Phdr);
  return fits ? header : std::nullopt;
}

template <class Visit>
void for_each_segment(CodeImage image, const Elf64_Ehdr& header, Visit visit) {
  const CodeImage table = part(image, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
  for (uint64_t at = 0; at < table.size(); at += sizeof(Elf64_Phdr)) visit(*read<Elf64_Phdr>(table, at));
}

constexpr uint64_t padded(uint64_t size) {
  return (size + 3) & ~uint64_t{3};
}

void read_notes(CodeImage notes, Kernels* kernels) {
  while (const auto header = read<Elf64_Nhdr>(notes, 0)) {
    notes = notes.subspan(sizeof(Elf64_Nhdr));
    const CodeImage name = part(notes, 0, header->n_namesz);
    const CodeImage description = part(notes, padded(header->n_namesz), header->n_descsz);
    if (header->n_type == note_metadata && begins_with(name, "AMDGPU")) read_metadata(description, kernels);
    const uint64_t length = padded(header->n_namesz) + padded(header->n_descsz);
    if (length > notes.size()) return;
    notes = notes.subspan(length);
  }
}

// Image without end: what HIP has loaded is as long as it says.
CodeImage unlimited(const void* begin) {
  return {static_cast<const unsigned char*>(begin), PTRDIFF_MAX};
}

}  // namespace

Kernels kernels_of(CodeImage image) {
  Kernels kernels;
  if (begins_with(image, bundle_magic)) {
    for_each_bundled(image, [&](const Bundled& bundled) {
      const CodeImage object = part(image, bundled.offset, bundled.size);
      if (!begins_with(object, bundle_magic)) kernels = kernels_of(object);
      return kernels.empty();
    });
  } else if (const auto header = elf_header(image)) {
    for_each_segment(image, *header, [&](const Elf64_Phdr& segment) {
      if (segment.p_type == PT_NOTE) read_notes(part(image, segment.p_offset, segment.p_filesz), &kernels);
    });
  }
  return kernels;
}

CodeImage image_at(const void* begin) {
  const CodeImage image = unlimited(begin);
  uint64_t end = 0;
  if (begins_with(image, bundle_magic))
    for_each_bundled(image, [&](const Bundled& bundled) {
      end = std::max(end, bundled.offset + bundled.size);
      return true;
    });
  else if (begins_with(image, ELFMAG))
    if (const auto header = elf_header(image))
      for_each_segment(image, *header, [&](const Elf64_Phdr& segment) {
        end = std::max(end, segment.p_offset + segment.p_filesz);
      });
  return image.first(std::min<uint64_t>(end, image.size()));
}

}  // namespace fairlead::device::program
