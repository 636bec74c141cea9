// SPDX-License-Identifier: Apache-2.0
//
// MPI_Pack and MPI_Unpack where either buffer, or both, is device memory. The packed form is the bytes of a
// message, as in the host MPIs, so a program may pack with Fairlead and unpack with the host MPI, or the
// other way round. The external form (MPI_Pack_external) mostly has the same bytes in another order, in which
// kernels pack and unpack them; where it has others, the host MPI makes it, between images of the buffers in
// host memory.

#include <algorithm>
#include <string_view>

#include "base/options.h"
#include "device/buffer_pool.h"
#include "device/copies/small_copy.h"
#include "mpi/abi/comm_self.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/communicator.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/datatype/elements.h"
#include "packing/move.h"

namespace fairlead::mpi {
namespace {

using device::Error;

bool into(void* to, int device, const void* from, uint64_t bytes) {
  return device::copy_now(device, to, from, bytes) == Error::none;
}

bool pack_now(const Elements& elements, char* packed, int packed_on) {
  if (elements.bytes() == 0) return true;
  if (elements.view() && packed_on == elements.device())
    return packing::move_now(packed_on, {packed, elements.bytes()}, 0, *elements.view(), 0,
                             elements.bytes()) == Error::none;
  if (packed_on < 0) return elements.pack(packed);
  HostBuffer between(elements.bytes());
  return between.data() && elements.pack(between.data()) &&
         into(packed, packed_on, between.data(), elements.bytes());
}

bool unpack_now(const Elements& elements, const char* packed, int packed_on) {
  if (elements.bytes() == 0) return true;
  if (elements.view() && packed_on == elements.device())
    return packing::move_now(packed_on, *elements.view(), 0, {const_cast<char*>(packed), elements.bytes()}, 0,
                             elements.bytes()) == Error::none;
  if (packed_on < 0) return elements.unpack(packed, elements.layout().bytes);
  HostBuffer between(elements.bytes());
  return between.data() &&
         device::copy_to_host(packed_on, between.data(), packed, elements.bytes()) == Error::none &&
         elements.unpack(between.data(), elements.layout().bytes);
}

// True if no buffer is device memory, or if the host MPI refuses the arguments in any memory.
template <class Count, class Size>
bool is_for_host(const void* elements, Count count, MPI_Datatype datatype, const void* packed,
                 const Size* position, MPI_Comm comm = MPI_COMM_SELF) {
  return !intercepting() || comm == MPI_COMM_NULL || is_invalid(elements, count, datatype) || !position ||
         (!is_device(elements, datatype) && !is_device(packed)) || is_refused(count, datatype);
}

int raise(MPI_Comm comm, int code, const Elements& elements) {
  return raise_error(comm, code,
                     "packing or unpacking of " + bytes_in_words(elements.layout().bytes) +
                         overrun(elements.address(), elements.layout()));
}

enum class PackDirection { pack, unpack };

// Checks both buffers before anything is moved.
template <class Size>
int check(PackDirection direction, const Elements& elements, const void* packed, Size size, Size position,
          MPI_Comm comm) {
  if (!packed || size < 0 || position < 0) return raise(comm, MPI_ERR_ARG, elements);
  if (!options().gpu_support) return refuse_device_memory(comm);
  const bool packs = direction == PackDirection::pack;
  check_streams(elements.device(), elements.address(), elements.layout(),
                packs ? BufferUse::sent : BufferUse::received);
  const auto first = static_cast<MPI_Count>(position);
  const auto bytes = std::min(static_cast<MPI_Count>(elements.bytes()), static_cast<MPI_Count>(size) - first);
  check_streams(device::device_at(packed), packed,
                {.bytes = bytes, .contiguous = true, .first = first, .span = bytes, .plan = {}},
                packs ? BufferUse::received : BufferUse::sent);
  return MPI_SUCCESS;
}

// Like check(), and the packed form has as many bytes as the elements.
template <class Size>
int check_room(PackDirection direction, const Elements& elements, const void* packed, Size size,
               Size position, MPI_Comm comm) {
  if (int result = check(direction, elements, packed, size, position, comm); result != MPI_SUCCESS)
    return result;
  return static_cast<MPI_Count>(elements.bytes()) > size - position ? raise(comm, MPI_ERR_TRUNCATE, elements)
                                                                    : MPI_SUCCESS;
}

template <auto host, class Count>
int pack(const void* inbuf, Count incount, MPI_Datatype datatype, void* outbuf, Count outsize,
         Count* position, MPI_Comm comm) {
  CallRecord record(function_of<host>);
  if (is_for_host(inbuf, incount, datatype, outbuf, position, comm))
    return (real.*host)(inbuf, incount, datatype, outbuf, outsize, position, comm);
  Elements elements({const_cast<void*>(inbuf), incount, datatype});
  if (int result = check_room(PackDirection::pack, elements, outbuf, outsize, *position, comm);
      result != MPI_SUCCESS)
    return result;
  if (!pack_now(elements, static_cast<char*>(outbuf) + *position, device::device_at(outbuf)))
    return raise(comm, MPI_ERR_OTHER, elements);
  *position += static_cast<Count>(elements.bytes());
  return MPI_SUCCESS;
}

template <auto host, class Count>
int unpack(const void* inbuf, Count insize, Count* position, void* outbuf, Count outcount,
           MPI_Datatype datatype, MPI_Comm comm) {
  CallRecord record(function_of<host>);
  if (is_for_host(outbuf, outcount, datatype, inbuf, position, comm))
    return (real.*host)(inbuf, insize, position, outbuf, outcount, datatype, comm);
  Elements elements({outbuf, outcount, datatype});
  if (int result = check_room(PackDirection::unpack, elements, inbuf, insize, *position, comm);
      result != MPI_SUCCESS)
    return result;
  if (!unpack_now(elements, static_cast<const char*>(inbuf) + *position, device::device_at(inbuf)))
    return raise(comm, MPI_ERR_OTHER, elements);
  *position += static_cast<Count>(elements.bytes());
  return MPI_SUCCESS;
}

// Longer external forms in host memory are packed in device memory and copied as a whole; the kernel of a
// shorter one accesses page-locked memory. Chosen, not measured.
constexpr uint64_t shortest_in_device_memory = uint64_t{16} << 10;

// Packs or unpacks the external form by a kernel. False: the host MPI must do it, or refuse it.
bool external_on_gpu(PackDirection direction, const char* form, const Elements& elements, char* packed,
                     int packed_on, MPI_Count room) {
  const int device = elements.device();
  if (device < 0 || (packed_on >= 0 && packed_on != device) || !form ||
      form != std::string_view("external32") || elements.layout().bytes > room)
    return false;
  Layout layout = elements.layout();
  layout.plan = external_plan_of(elements.buffer().datatype);
  if (!layout.plan) return false;
  layout.contiguous = layout.plan->contiguous();
  const Elements ordered(elements.buffer(), layout);
  if (!ordered.view()) return false;
  const uint64_t bytes = ordered.bytes();
  const auto move = [&](char* form_at, int form_on) {
    return direction == PackDirection::pack ? pack_now(ordered, form_at, form_on)
                                            : unpack_now(ordered, form_at, form_on);
  };
  if (packed_on == device || layout.contiguous || bytes < shortest_in_device_memory)
    return move(packed, packed_on);
  char* const between = static_cast<char*>(device::pool_allocate(device, bytes));
  if (!between) return false;
  const bool moved =
      direction == PackDirection::pack
          ? move(between, device) && device::copy_to_host(device, packed, between, bytes) == Error::none
          : into(between, device, packed, bytes) && move(between, device);
  device::pool_free(between);
  return moved;
}

template <auto host, class Count, class Extent>
int pack_external(const char* form, const void* inbuf, Count incount, MPI_Datatype datatype, void* outbuf,
                  Extent outsize, Extent* position) {
  CallRecord record(function_of<host>);
  if (is_for_host(inbuf, incount, datatype, outbuf, position))
    return (real.*host)(form, inbuf, incount, datatype, outbuf, outsize, position);
  Elements elements({const_cast<void*>(inbuf), incount, datatype});
  if (int result = check(PackDirection::pack, elements, outbuf, outsize, *position, comm_self());
      result != MPI_SUCCESS)
    return result;
  const int packed_on = device::device_at(outbuf);
  if (external_on_gpu(PackDirection::pack, form, elements, static_cast<char*>(outbuf) + *position, packed_on,
                      outsize - *position)) {
    *position += static_cast<Extent>(elements.bytes());
    return MPI_SUCCESS;
  }
  HostElements image(elements, true);
  HostBuffer packed(static_cast<size_t>(std::max<Extent>(outsize, 1)));
  if (!image.valid() || !packed.data()) return raise(comm_self(), MPI_ERR_OTHER, elements);
  Extent from = *position;
  char* to = packed_on < 0 ? static_cast<char*>(outbuf) : reinterpret_cast<char*>(packed.data());
  const PackArgument filled(image.address(), datatype);
  int result = (real.*host)(form, filled.address(), incount, filled.datatype(), to, outsize, position);
  if (result != MPI_SUCCESS || packed_on < 0) return result;
  bool written =
      into(static_cast<char*>(outbuf) + from, packed_on, to + from, static_cast<size_t>(*position - from));
  return written ? MPI_SUCCESS : raise(comm_self(), MPI_ERR_OTHER, elements);
}

template <auto host, class Count, class Extent>
int unpack_external(const char* form, const void* inbuf, Extent insize, Extent* position, void* outbuf,
                    Count outcount, MPI_Datatype datatype) {
  CallRecord record(function_of<host>);
  if (is_for_host(outbuf, outcount, datatype, inbuf, position))
    return (real.*host)(form, inbuf, insize, position, outbuf, outcount, datatype);
  Elements elements({outbuf, outcount, datatype});
  if (int result = check(PackDirection::unpack, elements, inbuf, insize, *position, comm_self());
      result != MPI_SUCCESS)
    return result;
  const int packed_on = device::device_at(inbuf);
  char* const packed_form = static_cast<char*>(const_cast<void*>(inbuf)) + *position;
  if (external_on_gpu(PackDirection::unpack, form, elements, packed_form, packed_on, insize - *position)) {
    *position += static_cast<Extent>(elements.bytes());
    return MPI_SUCCESS;
  }
  HostBuffer packed(static_cast<size_t>(std::max<Extent>(insize, 1)));
  HostElements image(elements, false);
  bool read = packed.data() && image.valid() &&
              (packed_on < 0 || device::copy_to_host(packed_on, packed.data(), inbuf,
                                                     static_cast<size_t>(insize)) == Error::none);
  if (!read) return raise(comm_self(), MPI_ERR_OTHER, elements);
  const void* from = packed_on < 0 ? inbuf : packed.data();
  const PackArgument to(image.address(), datatype);
  int result = (real.*host)(form, from, insize, position, to.address(), outcount, to.datatype());
  if (result != MPI_SUCCESS) return result;
  return image.write_back(elements.layout().bytes) ? MPI_SUCCESS
                                                   : raise(comm_self(), MPI_ERR_OTHER, elements);
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

#define FAIRLEAD_PACK(suffix, Count, Extent)                                                                 \
  FAIRLEAD_MPI(Pack##suffix, (const void* inbuf, Count incount, MPI_Datatype datatype, void* outbuf,         \
                              Count outsize, Count* position, MPI_Comm comm)) {                              \
    return pack<&Real::Pack##suffix>(inbuf, incount, datatype, outbuf, outsize, position, comm);             \
  }                                                                                                          \
  FAIRLEAD_MPI(Unpack##suffix, (const void* inbuf, Count insize, Count* position, void* outbuf,              \
                                Count outcount, MPI_Datatype datatype, MPI_Comm comm)) {                     \
    return unpack<&Real::Unpack##suffix>(inbuf, insize, position, outbuf, outcount, datatype, comm);         \
  }                                                                                                          \
  FAIRLEAD_MPI(Pack_external##suffix,                                                                        \
               (const char datarep[], const void* inbuf, Count incount, MPI_Datatype datatype, void* outbuf, \
                Extent outsize, Extent* position)) {                                                         \
    return pack_external<&Real::Pack_external##suffix>(datarep, inbuf, incount, datatype, outbuf, outsize,   \
                                                       position);                                            \
  }                                                                                                          \
  FAIRLEAD_MPI(Unpack_external##suffix,                                                                      \
               (const char datarep[], const void* inbuf, Extent insize, Extent* position, void* outbuf,      \
                Count outcount, MPI_Datatype datatype)) {                                                    \
    return unpack_external<&Real::Unpack_external##suffix>(datarep, inbuf, insize, position, outbuf,         \
                                                           outcount, datatype);                              \
  }

FAIRLEAD_PACK(, int, MPI_Aint)
FAIRLEAD_PACK(_c, MPI_Count, MPI_Count)
