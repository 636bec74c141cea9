// SPDX-License-Identifier: Apache-2.0
//
// MPI_Pack and MPI_Unpack where either buffer, or both, is device memory: the packed bytes are those of a
// message, as the host MPIs have them, so that programs may mix. The external form is made by the host MPI,
// between images of the buffers in host memory.

#include <algorithm>

#include "base/options.h"
#include "datatype/move.h"
#include "device/small_copy.h"
#include "mpi/front.h"
#include "mpi/record.h"
#include "mpi/stream_check.h"

namespace fairlead::mpi {
namespace {

using device::Error;

int raise(MPI_Comm comm, int code) {
  if (code != MPI_SUCCESS) PMPI_Comm_call_errhandler(comm, code);
  return code;
}

// A buffer of elements, wherever it lies.
class Elements {
 public:
  Elements(const void* address, MPI_Count count, MPI_Datatype datatype)
      : buffer_{const_cast<void*>(address), count, datatype}, layout_(layout_of(count, datatype)) {
    device::Allocation memory = layout_.bytes > 0 ? buffer_.take_memory(layout_.first) : device::Allocation();
    if (memory.kind != device::MemoryKind::device) return;
    device_ = memory.device;
    if (layout_.contiguous)
      view_.emplace(buffer_.address, bytes());
    else
      view_ = kernel_view(buffer_.address, layout_, memory);
  }

  uint64_t bytes() const { return static_cast<uint64_t>(layout_.bytes); }
  int device() const { return device_; }
  // Of device memory that kernels or copies can move.
  const std::optional<datatype::View>& view() const { return view_; }

  bool pack(void* packed) const {
    if (device_ < 0)
      return pack_host(buffer_.address, buffer_.count, buffer_.datatype, packed, layout_.bytes);
    if (view_) return datatype::copy_out(device_, packed, *view_, 0, bytes()) == Error::none;
    HostBuffer bytes_of_it;
    if (!pack_from_device(buffer_.address, buffer_.count, buffer_.datatype, layout_, device_, &bytes_of_it))
      return false;
    std::copy_n(bytes_of_it.data(), bytes(), static_cast<unsigned char*>(packed));
    return true;
  }
  bool unpack(const void* packed) const {
    if (device_ < 0)
      return unpack_host(packed, layout_.bytes, buffer_.address, buffer_.count, buffer_.datatype);
    if (view_) return datatype::copy_in(device_, *view_, 0, packed, bytes()) == Error::none;
    return unpack_to_device(packed, layout_.bytes, buffer_.address, buffer_.count, buffer_.datatype, layout_,
                            device_);
  }

 private:
  UserBuffer buffer_;
  Layout layout_;
  int device_ = -1;
  std::optional<datatype::View> view_;
};

bool into(void* to, int device, const void* from, uint64_t bytes) {
  return device::copy_now(device, to, from, bytes) == Error::none;
}

bool pack_now(const Elements& elements, char* packed, int packed_on) {
  if (elements.bytes() == 0) return true;
  if (elements.view() && packed_on == elements.device()) {
    datatype::Move move;
    return move.start(packed_on, {packed, elements.bytes()}, 0, *elements.view(), 0, elements.bytes()) ==
               Error::none &&
           move.wait() == Error::none;
  }
  if (packed_on < 0) return elements.pack(packed);
  HostBuffer between(elements.bytes());
  return between.data() && elements.pack(between.data()) &&
         into(packed, packed_on, between.data(), elements.bytes());
}

bool unpack_now(const Elements& elements, const char* packed, int packed_on) {
  if (elements.bytes() == 0) return true;
  if (elements.view() && packed_on == elements.device()) {
    datatype::Move move;
    return move.start(packed_on, *elements.view(), 0, {const_cast<char*>(packed), elements.bytes()}, 0,
                      elements.bytes()) == Error::none &&
           move.wait() == Error::none;
  }
  if (packed_on < 0) return elements.unpack(packed);
  HostBuffer between(elements.bytes());
  return between.data() &&
         device::copy_to_host(packed_on, between.data(), packed, elements.bytes()) == Error::none &&
         elements.unpack(between.data());
}

// What must hold of both buffers before anything is moved.
int check(const Elements& elements, const void* packed, MPI_Count room, MPI_Comm comm) {
  if (!options().gpu_support) return refuse_device_memory(comm);
  if (static_cast<MPI_Count>(elements.bytes()) > room) return raise(comm, MPI_ERR_TRUNCATE);
  int packed_on = device::device_at(packed);
  check_streams(std::max(elements.device(), packed_on), BufferUse::sent);
  return MPI_SUCCESS;
}

template <auto host, class Count>
int pack(const void* inbuf, Count incount, MPI_Datatype datatype, void* outbuf, Count outsize,
         Count* position, MPI_Comm comm) {
  CallRecord record(function_of<host>);
  if (!watching() || (!is_device(inbuf, datatype) && !is_device(outbuf)))
    return (real.*host)(inbuf, incount, datatype, outbuf, outsize, position, comm);
  Elements elements(inbuf, incount, datatype);
  if (int result = check(elements, outbuf, outsize - *position, comm); result != MPI_SUCCESS) return result;
  if (!pack_now(elements, static_cast<char*>(outbuf) + *position, device::device_at(outbuf)))
    return raise(comm, MPI_ERR_OTHER);
  *position += static_cast<Count>(elements.bytes());
  return MPI_SUCCESS;
}

template <auto host, class Count>
int unpack(const void* inbuf, Count insize, Count* position, void* outbuf, Count outcount,
           MPI_Datatype datatype, MPI_Comm comm) {
  CallRecord record(function_of<host>);
  if (!watching() || (!is_device(inbuf) && !is_device(outbuf, datatype)))
    return (real.*host)(inbuf, insize, position, outbuf, outcount, datatype, comm);
  Elements elements(outbuf, outcount, datatype);
  if (int result = check(elements, inbuf, insize - *position, comm); result != MPI_SUCCESS) return result;
  if (!unpack_now(elements, static_cast<const char*>(inbuf) + *position, device::device_at(inbuf)))
    return raise(comm, MPI_ERR_OTHER);
  *position += static_cast<Count>(elements.bytes());
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

#define FAIRLEAD_PACK(suffix, Count)                                                                       \
  extern "C" FAIRLEAD_EXPORT int MPI_Pack##suffix(const void* inbuf, Count incount, MPI_Datatype datatype, \
                                                  void* outbuf, Count outsize, Count* position,            \
                                                  MPI_Comm comm) {                                         \
    return pack<&Real::Pack##suffix>(inbuf, incount, datatype, outbuf, outsize, position, comm);           \
  }                                                                                                        \
  extern "C" FAIRLEAD_EXPORT int MPI_Unpack##suffix(const void* inbuf, Count insize, Count* position,      \
                                                    void* outbuf, Count outcount, MPI_Datatype datatype,   \
                                                    MPI_Comm comm) {                                       \
    return unpack<&Real::Unpack##suffix>(inbuf, insize, position, outbuf, outcount, datatype, comm);       \
  }

FAIRLEAD_PACK(, int)
FAIRLEAD_PACK(_c, MPI_Count)
