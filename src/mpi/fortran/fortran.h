// SPDX-License-Identifier: Apache-2.0
//
// Building blocks of the Fortran entry points (generated/fortran.cpp): the host MPI's entry points behind
// Fairlead's, and the conversion of arguments.
//
// Arguments that have another form in C are temporaries of the call of Fairlead's C function. Their
// constructors read the Fortran values; their destructors, which run after the call, write the results back:
//
//   report(ierror, MPI_Wait(Changed<Request>(request), Status(status)));
//
// An entry point exists only if the host MPI's own does not call Fairlead's C function (docs/use/fortran.md).

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "mpi/abi/host_mpi.h"
#include "mpi/abi/real.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"

namespace fairlead::mpi::fortran {

using Integer = MPI_Fint;
static_assert(sizeof(Integer) == sizeof(int), "arrays of counts are handed to C as they are");

// True if Fairlead neither intercepts nor records. Calls then go to the host MPI's Fortran function
// unchanged.
inline bool only_looks_on() {
  return !intercepting() && !recording();
}

// In mpi_f08 the program may omit ierror; the address is then null.
inline void report(Integer* ierror, int result) {
  if (ierror) *ierror = result;
}

// An ierror that always exists.
class Error {
 public:
  explicit Error(Integer* ierror) : argument_(ierror ? ierror : &own_) {}
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  Integer* argument() { return argument_; }
  bool none() const { return *argument_ == MPI_SUCCESS; }

 private:
  Integer own_ = MPI_SUCCESS;
  Integer* argument_;
};

// The next entry point of the same name after Fairlead's, bound at its first call. Every argument is an
// address or the length of a string, so all can be passed on without interpretation.
class HostEntry {
 public:
  constexpr HostEntry(Function function, const char* symbol) : function_(function), symbol_(symbol) {}

  template <class... Words>
  void operator()(Words... words) {
    void* address = address_.load(std::memory_order_relaxed);
    if (!address && !(address = bind())) return report(ierror(words...), detail::report_missing(function_));
    reinterpret_cast<void (*)(Words...)>(address)(words...);
  }

  bool of_f08() const { return std::string_view(symbol_).ends_with("_f08_"); }

 private:
  void* bind();
  // Returns the last argument that is the address of an integer: only lengths of strings follow it.
  template <class... Words>
  static Integer* ierror(Words... words) {
    Integer* last = nullptr;
    auto look_at = [&](auto word) {
      if constexpr (std::is_same_v<decltype(word), Integer*>) last = word;
    };
    (look_at(words), ...);
    return last;
  }

  const Function function_;
  const char* const symbol_;
  std::atomic<void*> address_ = nullptr;
};

// Does the host MPI's mpi_f08 pass array descriptors in place of addresses, as Open MPI is about to? If so,
// its calls with buffers go to the host MPI, and one log line reports it.
bool f08_hands_over_descriptors();

// A buffer. MPI_BOTTOM and MPI_IN_PLACE are variables in Fortran.
void* choice(void* address);

// A string, padded with blanks to a length that the compiler passes.
class Text {
 public:
  Text(const void* text, size_t length) : text_(static_cast<const char*>(text), length) {
    text_.erase(text_.find_last_not_of(' ') + 1);
  }
  operator const char*() const { return text_.c_str(); }

 private:
  std::string text_;
};

// The handle types, with the host MPI's conversion functions.
#define FAIRLEAD_HANDLE(name, type, prefix)                                       \
  struct name {                                                                   \
    using C = type;                                                               \
    static C from(const Integer* handle) { return PMPI_##prefix##_f2c(*handle); } \
    static Integer to(C handle) { return PMPI_##prefix##_c2f(handle); }           \
  };
FAIRLEAD_HANDLE(Comm, MPI_Comm, Comm)
FAIRLEAD_HANDLE(Datatype, MPI_Datatype, Type)
FAIRLEAD_HANDLE(File, MPI_File, File)
FAIRLEAD_HANDLE(Group, MPI_Group, Group)
FAIRLEAD_HANDLE(Info, MPI_Info, Info)
FAIRLEAD_HANDLE(Message, MPI_Message, Message)
FAIRLEAD_HANDLE(Op, MPI_Op, Op)
FAIRLEAD_HANDLE(Request, MPI_Request, Request)
FAIRLEAD_HANDLE(Win, MPI_Win, Win)
#if MPI_VERSION * 10 + MPI_SUBVERSION >= 41
FAIRLEAD_HANDLE(Session, MPI_Session, Session)
#endif
#undef FAIRLEAD_HANDLE

// A handle that the call may change.
template <class Handle>
class Changed {
 public:
  explicit Changed(Integer* argument) : Changed(argument, Handle::from(argument)) {}
  ~Changed() { *argument_ = Handle::to(handle_); }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;
  operator typename Handle::C *() { return &handle_; }

 protected:
  Changed(Integer* argument, typename Handle::C handle) : argument_(argument), handle_(handle) {}

 private:
  Integer* const argument_;
  typename Handle::C handle_;
};

// A handle that the call creates: the previous value in Fortran has no meaning.
struct MadeRequest : Changed<Request> {
  explicit MadeRequest(Integer* argument) : Changed(argument, MPI_REQUEST_NULL) {}
};
struct MadeWin : Changed<Win> {
  explicit MadeWin(Integer* argument) : Changed(argument, MPI_WIN_NULL) {}
};
struct MadeMessage : Changed<Message> {
  explicit MadeMessage(Integer* argument) : Changed(argument, MPI_MESSAGE_NULL) {}
};

// Room for `count` elements; allocates from the heap only for many.
template <class Element>
class SmallArray {
 public:
  explicit SmallArray(int count) : count_(count > 0 ? count : 0) {
    if (count_ > few) many_.reset(new Element[count_]);
  }
  Element* data() { return many_ ? many_.get() : few_; }
  int count() const { return count_; }

 private:
  static constexpr int few = 32;
  const int count_;
  Element few_[few];
  std::unique_ptr<Element[]> many_;
};

// An array of requests that the call only reads.
class Requests {
 public:
  Requests(Integer* places, int count) : places_(places), requests_(count) {
    for (int i = 0; i < requests_.count(); ++i) requests_.data()[i] = Request::from(&places_[i]);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  operator MPI_Request*() { return requests_.data(); }

 protected:
  void write_back() {
    for (int i = 0; i < requests_.count(); ++i) places_[i] = Request::to(requests_.data()[i]);
  }

 private:
  Integer* const places_;
  SmallArray<MPI_Request> requests_;
};

struct ChangedRequests : Requests {
  using Requests::Requests;
  ~ChangedRequests() { write_back(); }
};

// A status has one layout in mpif.h, mpi and mpi_f08. Fields that the call does not set keep their values.
class Status {
 public:
  explicit Status(Integer* argument);
  ~Status();
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  operator MPI_Status*() { return ignored_ ? MPI_STATUS_IGNORE : &status_; }

 private:
  Integer* const argument_;
  const bool ignored_;
  MPI_Status status_;
};

class Statuses {
 public:
  Statuses(Integer* places, int count);
  ~Statuses();
  Statuses(const Statuses&) = delete;
  Statuses& operator=(const Statuses&) = delete;
  operator MPI_Status*() { return ignored_ ? MPI_STATUSES_IGNORE : statuses_.data(); }

 private:
  Integer* const places_;
  const bool ignored_;
  SmallArray<MPI_Status> statuses_;
};

// A LOGICAL that the call sets, with the true value of the compiler that built the host MPI.
class Logical {
 public:
  explicit Logical(Integer* argument) : argument_(argument) {}
  ~Logical();
  Logical(const Logical&) = delete;
  Logical& operator=(const Logical&) = delete;
  operator int*() { return &flag_; }

 private:
  Integer* const argument_;
  int flag_ = 0;
};

// An index, which counts from one in Fortran.
class Index {
 public:
  explicit Index(Integer* argument) : argument_(argument) {}
  ~Index() { *argument_ = index_ == MPI_UNDEFINED ? index_ : index_ + 1; }
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;
  operator int*() { return &index_; }

 private:
  Integer* const argument_;
  int index_ = MPI_UNDEFINED;
};

// The indices that Waitsome and similar functions return. After the call `outcount` holds their number.
class Indices {
 public:
  Indices(Integer* places, Integer* outcount) : places_(places), outcount_(outcount) { *outcount_ = 0; }
  ~Indices() {
    if (*outcount_ == MPI_UNDEFINED) return;
    for (int i = 0; i < *outcount_; ++i) ++places_[i];
  }
  Indices(const Indices&) = delete;
  Indices& operator=(const Indices&) = delete;
  operator int*() { return places_; }

 private:
  Integer* const places_;
  Integer* const outcount_;
};

// Which ranks the entries of an array of datatypes belong to.
enum class Peers { ranks, destinations, sources };
// The datatypes of Alltoallw and similar functions. Operations read them until they end, persistent ones at
// each start, and no call reports that end. Each distinct sequence of datatypes is therefore kept
// permanently, once. Null for MPI_IN_PLACE.
const MPI_Datatype* kept_types(const Integer* types, void* buffer, const Integer* comm, Peers peers);

// Returns a predefined attribute of one of Fairlead's windows; false if the host MPI must answer.
bool tell_attribute(const Integer* win, const Integer* keyval, void* value, Integer* flag);

}  // namespace fairlead::mpi::fortran

// Defines the entry points of one MPI function. Its body, which follows, has the parameters and `host`. The
// symbols are the names that compilers make of a name without BIND(C), and the one that the module mpi_f08
// calls.
#define FAIRLEAD_BARE(...) __VA_ARGS__
#define FAIRLEAD_ENTRY(symbol, name, body, parameters, arguments, stays) \
  extern "C" FAIRLEAD_EXPORT void symbol parameters {                    \
    static constinit HostEntry host(Function::name, #symbol);            \
    if (stays) return host arguments;                                    \
    body(host, FAIRLEAD_BARE arguments);                                 \
  }
#define FAIRLEAD_BODY(body, parameters) \
  static void body([[maybe_unused]] HostEntry& host, FAIRLEAD_BARE parameters)
#define FAIRLEAD_OTHER_NAME(symbol, of, parameters) \
  extern "C" FAIRLEAD_EXPORT void symbol parameters __attribute__((alias(#of)));
#define FAIRLEAD_COMPILED_NAMES(stem, capitals, name, body, parameters, arguments) \
  FAIRLEAD_ENTRY(stem##_, name, body, parameters, arguments, false)                \
  FAIRLEAD_OTHER_NAME(stem##__, stem##_, parameters)                               \
  FAIRLEAD_OTHER_NAME(stem, stem##_, parameters)                                   \
  FAIRLEAD_OTHER_NAME(capitals, stem##_, parameters)
#define FAIRLEAD_ALL_ENTRIES(name, lower, upper, parameters, arguments, stays)          \
  FAIRLEAD_BODY(lower, parameters);                                                     \
  FAIRLEAD_COMPILED_NAMES(mpi_##lower, MPI_##upper, name, lower, parameters, arguments) \
  FAIRLEAD_ENTRY(mpi_##lower##_f08_, name, lower, parameters, arguments, stays)         \
  FAIRLEAD_BODY(lower, parameters)
#define FAIRLEAD_ENTRIES_OF_EVERY_BINDING(name, lower, upper, parameters, arguments) \
  FAIRLEAD_ALL_ENTRIES(name, lower, upper, parameters, arguments, false)
#if defined(OPEN_MPI)
#define FAIRLEAD_ENTRIES(name, lower, upper, parameters, arguments) \
  FAIRLEAD_ALL_ENTRIES(name, lower, upper, parameters, arguments, false)
#define FAIRLEAD_ENTRIES_WITH_BUFFER(name, lower, upper, parameters, arguments) \
  FAIRLEAD_ALL_ENTRIES(name, lower, upper, parameters, arguments, f08_hands_over_descriptors())
// The symbol behind the module mpi's interface that has a TYPE(C_PTR); the arguments are the same.
#define FAIRLEAD_ENTRIES_FOR_C_PTR(name, lower, upper, parameters, arguments) \
  FAIRLEAD_COMPILED_NAMES(mpi_##lower##_cptr, MPI_##upper##_CPTR, name, lower, parameters, arguments)
// Names that the MPI gave a function before the standard did.
#define FAIRLEAD_ENTRIES_OF_EARLIER_NAME(name, lower, upper, parameters, arguments)       \
  FAIRLEAD_COMPILED_NAMES(mpix_##lower, MPIX_##upper, name, lower, parameters, arguments) \
  FAIRLEAD_ENTRY(mpix_##lower##_f08_, name, lower, parameters, arguments, f08_hands_over_descriptors())
#else
#define FAIRLEAD_ENTRIES(name, lower, upper, parameters, arguments)             \
  FAIRLEAD_BODY(lower, parameters);                                             \
  FAIRLEAD_ENTRY(mpi_##lower##_f08_, name, lower, parameters, arguments, false) \
  FAIRLEAD_BODY(lower, parameters)
#define FAIRLEAD_ENTRIES_FOR_C_PTR(name, lower, upper, parameters, arguments)
#define FAIRLEAD_ENTRIES_OF_EARLIER_NAME(name, lower, upper, parameters, arguments)
#endif
