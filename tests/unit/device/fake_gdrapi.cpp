// SPDX-License-Identifier: Apache-2.0
//
// A libgdrapi.so.2 for gdrcopy_test: "device memory" is the caller's own, "mapping" it makes a second view of
// the same address. It counts what is pinned and refuses one address.

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace {

struct Handle {
  unsigned long address;
};
int pinned = 0;
constexpr unsigned long refused = 0x10000;

}  // namespace

extern "C" {

int fake_gdrapi_pinned() {
  return pinned;
}
void* gdr_open() {
  return &pinned;
}
int gdr_pin_buffer(void*, unsigned long address, size_t, uint64_t, uint32_t, Handle* handle) {
  if (address == refused) return EINVAL;
  ++pinned;
  handle->address = address;
  return 0;
}
int gdr_unpin_buffer(void*, Handle) {
  --pinned;
  return 0;
}
int gdr_map(void*, Handle handle, void** mapped, size_t) {
  *mapped = reinterpret_cast<void*>(handle.address);
  return 0;
}
int gdr_unmap(void*, Handle, void*, size_t) {
  return 0;
}

}  // extern "C"
