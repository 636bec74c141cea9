// SPDX-License-Identifier: Apache-2.0

#include "device/recorded_calls.h"

#include "base/log.h"
#include "device/blocking_driver_calls.h"

namespace fairlead::device {

Graph record(Stream stream, const std::function<Error(Stream)>& submit) {
  Runtime* gpu = BlockingDriverCalls::of_program();
  Graph graph = nullptr;
  Error error = gpu->begin_capture(stream, CaptureMode::relaxed);
  if (error == Error::none) {
    error = submit(stream);
    const Error end = gpu->end_capture(stream, &graph);
    if (error == Error::none) error = end;
  }
  if (error == Error::none) return graph;
  log_line(LogLevel::debug, "work of streams is not recorded in graphs: %s %s", to_string(error),
           gpu->error_text());
  if (graph) gpu->destroy_graph(graph);
  return nullptr;
}

}  // namespace fairlead::device
