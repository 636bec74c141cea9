// SPDX-License-Identifier: Apache-2.0
//
// Raises errors, and interposes the functions that make error handlers.

#include "mpi/core/error_handler.h"

#include "base/log.h"
#include "device/classify.h"
#include "mpi/abi/comm_self.h"
#include "mpi/core/engine.h"
#include "mpi/core/handler_relay.h"
#include "mpi/core/interception.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/record.h"

namespace fairlead::mpi {
namespace {

bool is_fatal(MPI_Errhandler handler) {
  bool fatal = handler == MPI_ERRORS_ARE_FATAL;
#if defined(MPI_ERRORS_ABORT)
  fatal = fatal || handler == MPI_ERRORS_ABORT;
#endif
  PMPI_Errhandler_free(&handler);
  return fatal;
}

std::string words_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(code, text, &length);
  const std::string words = text;
  return words.substr(0, words.find(", error stack:"));  // cuts MPICH's stack of its own functions
}

void report(bool fatal, int code, const std::string& about) {
  const LogLevel level = fatal ? LogLevel::error : LogLevel::info;
  if (log_enabled(level))
    log_line(level, "%s: %s failed: %s", name_of_call(), about.c_str(), words_of(code).c_str());
}

}  // namespace

int raise_error(MPI_Comm comm, int code, const std::string& about) {
  if (comm == MPI_COMM_NULL) {
    report(false, code, about);
    return code;
  }
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  report(PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS || is_fatal(handler), code, about);
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

int raise_window_error(MPI_Win win, int code, const std::string& about) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  report(PMPI_Win_get_errhandler(win, &handler) != MPI_SUCCESS || is_fatal(handler), code, about);
  PMPI_Win_call_errhandler(win, code);
  return code;
}

int raise_file_error(MPI_File file, int code, const std::string& about) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  report(PMPI_File_get_errhandler(file, &handler) != MPI_SUCCESS || is_fatal(handler), code, about);
  PMPI_File_call_errhandler(file, code);
  return code;
}

std::string why_no_progress_thread() {
  if (!engine().threads())
    return "it needs MPI_THREAD_MULTIPLE, which was not requested or is not provided; request it in "
           "MPI_Init_thread, or set FAIRLEAD_PROGRESS_THREAD=on";
  return progress_thread().exists() ? "" : "it needs a thread, and the process cannot create another one";
}

MPI_Comm comm_of_no_object() {
  if (has_world() || comm_self() != MPI_COMM_NULL) return has_world() ? MPI_COMM_WORLD : comm_self();
  // Fairlead is off.
  int begun = 0, over = 0;
  PMPI_Initialized(&begun);
  PMPI_Finalized(&over);
  return begun && !over ? MPI_COMM_WORLD : MPI_COMM_NULL;
}

int refuse_call(MPI_Comm comm, const char* function, int code, const std::string& why) {
  log_line(LogLevel::error, "%s: %s", function, why.c_str());
  const ExtensionCall call(function);
  return raise_error(comm, code, "the call");
}

std::string ranks_in_words(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  return text;
}

std::string bytes_in_words(MPI_Count bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

std::string peer_in_words(const char* direction, int rank, int tag) {
  return std::string(direction) + (rank == MPI_ANY_SOURCE ? " any rank" : " rank " + std::to_string(rank)) +
         (tag == MPI_ANY_TAG ? " with any tag" : " with tag " + std::to_string(tag));
}

std::string overrun(const void* address, const Layout& layout) {
  if (layout.span <= 0) return {};
  const auto first = reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(layout.first);
  const auto asked = static_cast<uintptr_t>(layout.span);
  const device::Allocation memory = device::classify(reinterpret_cast<void*>(first));
  if (memory.kind != device::MemoryKind::device || memory.size == 0) return {};
  const uintptr_t held = memory.base + memory.size - first;
  if (asked <= held) return {};
  char text[160];
  std::snprintf(text, sizeof text,
                ", which needs %zu bytes from %p on where %zu are left of an allocation of %zu,", asked,
                reinterpret_cast<void*>(first), held, memory.size);
  return text;
}

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Comm_create_errhandler, (MPI_Comm_errhandler_function * function, MPI_Errhandler* errhandler)) {
  return real.Comm_create_errhandler(relay_to<Function::Comm_create_errhandler>(function), errhandler);
}

FAIRLEAD_MPI(Win_create_errhandler, (MPI_Win_errhandler_function * function, MPI_Errhandler* errhandler)) {
  return real.Win_create_errhandler(relay_to<Function::Win_create_errhandler>(function), errhandler);
}

FAIRLEAD_MPI(File_create_errhandler, (MPI_File_errhandler_function * function, MPI_Errhandler* errhandler)) {
  return real.File_create_errhandler(relay_to<Function::File_create_errhandler>(function), errhandler);
}
