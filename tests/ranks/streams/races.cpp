// SPDX-License-Identifier: Apache-2.0
//
// M10, FAIRLEAD_CHECK=streams where it sees what the program submits and what it waits for: small programs
// with a mistake, whose kernel, stream and place are named however fast the GPU is, and others like them
// without, of which nothing is said. All of a message to ourselves, with host memory at the other end.

#include <fairlead/device.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "harness/harness.h"
#include "harness/overheard.h"
#include "streams/race_gpu.h"

using namespace ranks;

namespace {

constexpr int tag = 47;
constexpr int bytes = 6000;

#define GPU(call)                                                    \
  do {                                                               \
    if (const int code = (call); code != FAIRLEAD_DEVICE_SUCCESS)    \
      give_up(#call ": %d, %s", code, fairlead_device_error_text()); \
  } while (0)

struct Stream {
  Stream() { GPU(race_gpu().stream_create(&handle)); }
  ~Stream() {
    GPU(race_gpu().stream_synchronize(handle));
    GPU(race_gpu().stream_destroy(handle));
  }
  void write(const Memory& memory, size_t offset = 0) const {
    void* first = memory.data() + offset;
    void* arguments[] = {&first};
    GPU(race_launch(handle, "write_byte", arguments));
  }
  void read(const Memory& memory) const {
    static const Memory over(Place::pinned, sizeof(int));
    *reinterpret_cast<int*>(over.data()) = 1;
    void *word = over, *first = memory;
    void* arguments[] = {&word, &first};
    GPU(race_launch(handle, "read_when_over", arguments));
  }
  void wait() const { GPU(race_gpu().stream_synchronize(handle)); }
  GpuStream* handle = nullptr;
};

struct Event {
  Event() { GPU(race_gpu().event_create(&handle)); }
  ~Event() { GPU(race_gpu().event_destroy(handle)); }
  void record(const Stream& stream) const { GPU(race_gpu().event_record(handle, stream.handle)); }
  void wait() const {
    int state;
    while ((state = race_gpu().event_query(handle)) == FAIRLEAD_DEVICE_NOT_READY) usleep(100);
    GPU(state);
  }
  GpuEvent* handle = nullptr;
};

struct Program {
  Memory buffer{Place::device, bytes}, host{Place::pinned, bytes};
  Stream stream, other;

  // Always inlined: each place of a call is named once.
  [[gnu::always_inline]] void send(int count = bytes, int from = 0) const {
    MUST(MPI_Sendrecv(buffer.data() + from, count, MPI_BYTE, 0, tag, host, bytes, MPI_BYTE, 0, tag,
                      MPI_COMM_SELF, MPI_STATUS_IGNORE));
  }
  [[gnu::always_inline]] void receive(int count = bytes, int to = 0) const {
    MUST(MPI_Sendrecv(host, count, MPI_BYTE, 0, tag, buffer.data() + to, count, MPI_BYTE, 0, tag,
                      MPI_COMM_SELF, MPI_STATUS_IGNORE));
  }
};

// Runs it, and counts what is said of it.
void expect(size_t warnings, const char* words, const char* name,
            const std::function<void(const Program&)>& body) {
  const char* check = getenv("FAIRLEAD_CHECK");
  const bool checked = !host_oracle && check && strstr(check, "streams");
  if (host_oracle) return;
  if (const RaceHip* hip = race_hip(); hip && !hip->has_code)
    return skip("built without device code for AMD GPUs");
  Overheard overheard;
  {
    Program program;
    body(program);
  }
  if (!checked) warnings = 0;
  EXPECT(overheard.count(words) == warnings, "%s: %zu warnings, not %zu:\n%s", name, overheard.count(words),
         warnings, overheard.text().c_str());
}

constexpr const char* before_call = "synchronise that stream before the call";
constexpr const char* before_end = "complete that operation first";

void wrong(const char* name, const std::function<void(const Program&)>& body) {
  expect(1, before_call, name, body);
}
void right(const char* name, const std::function<void(const Program&)>& body) {
  expect(0, before_call, name, body);
  expect(0, before_end, name, body);
}

}  // namespace

RANK_TEST(races, M10_a_send_before_the_kernel_has_been_waited_for, 1) {
  wrong("in a stream", [](const Program& p) { p.stream.write(p.buffer), p.send(); });
  wrong("that is over by luck", [](const Program& p) {
    p.stream.write(p.buffer);
    usleep(20000);
    p.send();
  });
  wrong("in the default stream", [](const Program& p) {
    void* first = p.buffer;
    void* arguments[] = {&first};
    GPU(race_launch(nullptr, "write_byte", arguments));
    p.send();
    GPU(race_gpu().synchronize());
  });
  wrong("of a stream that has ended", [](const Program& p) {
    Stream().write(p.buffer);
    GpuStream* ended;
    GPU(race_gpu().stream_create(&ended));
    void* first = p.buffer;
    void* arguments[] = {&first};
    GPU(race_launch(ended, "write_byte", arguments));
    GPU(race_gpu().stream_destroy(ended));
    p.send();
  });
  wrong("a copy", [](const Program& p) {
    GPU(race_gpu().copy_on(p.stream.handle, p.buffer, p.host, bytes));
    p.send();
  });
  wrong("a memset", [](const Program& p) {
    GPU(race_gpu().fill_on(p.stream.handle, p.buffer, 1, bytes));
    p.send();
  });
  right("after the stream", [](const Program& p) { p.stream.write(p.buffer), p.stream.wait(), p.send(); });
  right("after the device", [](const Program& p) {
    p.stream.write(p.buffer);
    GPU(race_gpu().synchronize());
    p.send();
  });
  right("after a question", [](const Program& p) {
    p.stream.write(p.buffer);
    while (race_gpu().stream_query(p.stream.handle) != FAIRLEAD_DEVICE_SUCCESS) usleep(100);
    p.send();
  });
  right("a copy of nothing", [](const Program& p) {
    GPU(race_gpu().copy_on(p.stream.handle, p.buffer, p.host, 0));
    p.send();
  });
  right("a copy out of it", [](const Program& p) {
    Memory copy(Place::device, bytes);
    GPU(race_gpu().copy_on(p.stream.handle, copy, p.buffer, bytes));
    p.send();
    p.stream.wait();
  });
}

RANK_TEST(races, M10_events_and_several_streams, 1) {
  wrong("the other stream", [](const Program& p) { p.stream.write(p.buffer), p.other.wait(), p.send(); });
  wrong("recorded too early", [](const Program& p) {
    Event event;
    event.record(p.stream);
    p.stream.write(p.buffer);
    event.wait();
    p.send();
  });
  wrong("ordered too late", [](const Program& p) {
    Event event;
    event.record(p.stream);
    GPU(race_gpu().event_wait(event.handle, p.other.handle));
    p.stream.write(p.buffer);
    p.other.wait();
    p.send();
  });
  right("recorded behind", [](const Program& p) {
    Event event;
    p.stream.write(p.buffer);
    event.record(p.stream);
    event.wait();
    p.send();
  });
  right("through another stream", [](const Program& p) {
    Event event;
    p.stream.write(p.buffer);
    event.record(p.stream);
    GPU(race_gpu().event_wait(event.handle, p.other.handle));
    p.other.wait();
    p.send();
  });
  right("through an event of the other stream", [](const Program& p) {
    Event event, last;
    p.stream.write(p.buffer);
    event.record(p.stream);
    GPU(race_gpu().event_wait(event.handle, p.other.handle));
    last.record(p.other);
    last.wait();
    p.send();
  });
}

RANK_TEST(races, M10_a_receive_into_memory_of_a_kernel, 1) {
  wrong("that reads it", [](const Program& p) { p.stream.read(p.buffer), p.receive(); });
  wrong("that writes it", [](const Program& p) { p.stream.write(p.buffer), p.receive(); });
  right("that has been waited for",
        [](const Program& p) { p.stream.read(p.buffer), p.stream.wait(), p.receive(); });
  right("a send of what a kernel reads", [](const Program& p) { p.stream.read(p.buffer), p.send(); });
}

// A kernel that gets a pointer to a field may leave its edge alone.
RANK_TEST(races, M10_parts_of_an_allocation, 1) {
  constexpr int half = bytes / 2;
  right("below the kernel's", [](const Program& p) { p.stream.write(p.buffer, half), p.send(half); });
  right("of a kernel's field", [](const Program& p) { p.stream.write(p.buffer), p.receive(half); });
  right("behind a copy", [](const Program& p) {
    GPU(race_gpu().copy_on(p.stream.handle, p.buffer, p.host, half));
    p.send(half, half);
  });
  wrong("within a copy", [](const Program& p) {
    GPU(race_gpu().copy_on(p.stream.handle, p.buffer, p.host, half));
    p.send(half, half - 1);
  });
  wrong("the kernel's part", [](const Program& p) { p.stream.write(p.buffer, half), p.send(half, half); });
}

RANK_TEST(races, M10_work_that_is_submitted_while_a_message_is_under_way, 1) {
  const auto during = [](auto start, auto work) {
    return [=](const Program& p) {
      MPI_Request requests[2];
      start(p, requests);
      work(p);
      MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    };
  };
  const auto sends = [](const Program& p, MPI_Request* requests) {
    MUST(MPI_Irecv(p.host, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF, &requests[0]));
    MUST(MPI_Isend(p.buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF, &requests[1]));
  };
  const auto receives = [](const Program& p, MPI_Request* requests) {
    MUST(MPI_Irecv(p.buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF, &requests[0]));
    MUST(MPI_Isend(p.host, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF, &requests[1]));
  };
  const auto writes = [](const Program& p) { p.stream.write(p.buffer); };
  const auto reads = [](const Program& p) { p.stream.read(p.buffer); };
  expect(1, before_end, "a send and a kernel that writes", during(sends, writes));
  expect(1, before_end, "a receive and a kernel that writes", during(receives, writes));
  expect(1, before_end, "a receive and a kernel that reads", during(receives, reads));
  right("a send and a kernel that reads", during(sends, reads));
  right("one after the other", [=](const Program& p) {
    during(receives, [](const Program&) {})(p);
    p.stream.read(p.buffer);
    p.stream.wait();
  });
  right("persistent requests between their rounds", [](const Program& p) {
    MPI_Request requests[2];
    MUST(MPI_Recv_init(p.host, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF, &requests[0]));
    MUST(MPI_Send_init(p.buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF, &requests[1]));
    for (int round = 0; round < 3; ++round) {
      p.stream.write(p.buffer);
      p.stream.wait();
      MUST(MPI_Startall(2, requests));
      MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
  });
}

RANK_TEST(races, M10_collectives, 1) {
  const auto sum = [](const Program& p) {
    MUST(MPI_Allreduce(MPI_IN_PLACE, p.buffer, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_SELF));
  };
  wrong("an allreduce", [=](const Program& p) { p.stream.write(p.buffer), sum(p); });
  right("an allreduce", [=](const Program& p) { p.stream.write(p.buffer), p.stream.wait(), sum(p); });
}

RANK_TEST(races, M10_graphs, 1) {
  const auto graph_of = [](const Program& p) {
    GpuGraph* graph = nullptr;
    Event begin, end;
    GPU(race_gpu().capture_begin(p.stream.handle));
    begin.record(p.stream);
    GPU(race_gpu().event_wait(begin.handle, p.other.handle));
    p.other.write(p.buffer);
    end.record(p.other);
    GPU(race_gpu().event_wait(end.handle, p.stream.handle));
    GPU(race_gpu().capture_end(p.stream.handle, &graph));
    return graph;
  };
  right("that is captured", [=](const Program& p) {
    GpuGraph* graph = graph_of(p);
    p.send();
    GPU(race_gpu().graph_destroy(graph));
  });
  for (const bool waits : {false, true})
    (waits ? right : wrong)("that runs", [=](const Program& p) {
      GpuGraph* graph = graph_of(p);
      GPU(race_gpu().graph_launch(graph, p.stream.handle));
      if (waits) p.stream.wait();
      p.send();
      p.stream.wait();
      GPU(race_gpu().graph_destroy(graph));
    });
}

// The host learns of the end by itself.
RANK_TEST(races, M10_a_function_of_the_host_tells_of_the_end, 1) {
  right("a flag", [](const Program& p) {
    volatile int over = 0;
    p.stream.write(p.buffer);
    GPU(race_gpu().call_on(
        p.stream.handle, [](void* flag) { *static_cast<volatile int*>(flag) = 1; }, const_cast<int*>(&over)));
    while (!over) usleep(100);
    p.send();
  });
}

// The address of an allocation that has ended is soon another's.
RANK_TEST(races, M10_memory_that_is_given_back, 1) {
  right("a buffer of the pool", [](const Program& p) {
    void* first = nullptr;
    GPU(fairlead_device_allocate(&first, bytes, FAIRLEAD_MEMORY_POOL));
    void* arguments[] = {&first};
    GPU(race_launch(p.stream.handle, "write_byte", arguments));
    usleep(50000);  // it is over, but nobody was told
    GPU(fairlead_device_free(first));
    const Memory next(Place::pool, bytes);
    MUST(MPI_Sendrecv(next, bytes, MPI_BYTE, 0, tag, p.host, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF,
                      MPI_STATUS_IGNORE));
  });
}

// What fairlead/device.h has not.
RANK_TEST(races, M10_ways_of_HIP_to_launch_a_kernel, 1) {
  const RaceHip* const hip = race_hip();
  if (!hip) return skip("needs TEST_RACES=hip");
  static constexpr RaceHip::Dim3 one{1, 1, 1};
  void *module = nullptr, *function = nullptr;
  GPU(hip->load_module(&module, hip->bundle));
  GPU(hip->find_function(&function, module, RaceHip::symbol("write_byte")));
  const auto launch = [=](const Program& p, void** arguments, void** packed) {
    GPU(hip->launch_function(function, 1, 1, 1, 1, 1, 1, 0, p.stream.handle, arguments, packed));
  };
  wrong("of a module", [&](const Program& p) {
    void* first = p.buffer;
    void* arguments[] = {&first};
    launch(p, arguments, nullptr), p.send();
  });
  wrong("with parameters in a buffer", [&](const Program& p) {
    void* first = p.buffer;
    size_t size = sizeof first;
    constexpr uintptr_t buffer = 1, bytes_of_buffer = 2, end = 3;
    void* packed[] = {reinterpret_cast<void*>(buffer), &first, reinterpret_cast<void*>(bytes_of_buffer),
                      &size, reinterpret_cast<void*>(end)};
    launch(p, nullptr, packed), p.send();
  });
  const auto launch_with_events = [=](const Program& p, const Event& start, const Event& stop) {
    void* first = p.buffer;
    void* arguments[] = {&first};
    GPU(hip->launch_with_events(hip->function("write_byte"), one, one, arguments, 0, p.stream.handle,
                                start.handle, stop.handle, 0));
  };
  wrong("an event before it", [&](const Program& p) {
    Event start, stop;
    launch_with_events(p, start, stop), start.wait(), p.send();
  });
  right("an event behind it", [&](const Program& p) {
    Event start, stop;
    launch_with_events(p, start, stop), stop.wait(), p.send();
  });
  if (!hip->profiled) return;  // AMD's HIP does not take what is no code
  right("of which nothing is known", [&](const Program& p) {
    void* first = p.buffer;
    void* arguments[] = {&first};
    GPU(hip->launch(RaceHip::compressed_function(), one, one, arguments, 0, p.stream.handle));
    p.send();
  });
  right("of which nothing is known, and which tells the host that the one before is over",
        [&](const Program& p) {
          const Memory over(Place::pinned, 1);
          void* first = over;
          void* arguments[] = {&first};
          *reinterpret_cast<unsigned char*>(over.data()) = 0;
          p.stream.write(p.buffer);
          GPU(hip->launch(RaceHip::compressed_function(), one, one, arguments, 0, p.stream.handle));
          while (!*reinterpret_cast<volatile unsigned char*>(over.data())) usleep(100);
          p.send();
        });
}

// HIP's calls in which the host waits.
RANK_TEST(races, M10_calls_of_HIP_that_return_when_all_is_over, 1) {
  const RaceHip* const hip = race_hip();
  if (!hip) return skip("needs TEST_RACES=hip");
  const auto copy = [](const Program& p, void* to, const void* from) {
    GPU(race_gpu().copy_on(p.stream.handle, to, from, bytes));
  };
  right("a copy from pageable memory", [=](const Program& p) {
    const Memory pageable(Place::host, bytes);
    copy(p, p.buffer, pageable), p.send();
    p.stream.wait();  // simulated copies take their time
  });
  right("a copy to pageable memory behind a kernel", [=](const Program& p) {
    const Memory pageable(Place::host, bytes);
    p.stream.write(p.buffer), copy(p, pageable, p.buffer), p.send();
    p.stream.wait();
  });
  right("a copy of rows", [=](const Program& p) {
    void* first = p.buffer;
    void* arguments[] = {&first};
    GPU(race_launch(nullptr, "write_byte", arguments));
    GPU(hip->copy_2d(p.host, bytes, p.buffer, bytes, bytes, 1, 4));
    p.send();
  });
  right("the end of page-locked memory", [=](const Program& p) {
    Memory memory(Place::host, bytes);
    GPU(hip->register_host(memory, bytes, 0));
    p.stream.write(p.buffer);
    GPU(hip->unregister_host(memory));
    p.send();
  });
  if (fairlead_device_count() < 2) return;
  right("the end of memory of a device that is not the current one", [=](const Program& p) {
    void* memory = nullptr;
    GPU(hip->allocate(&memory, bytes));
    p.stream.write(p.buffer);
    GPU(hip->set_device(1));
    GPU(hip->free(memory));
    GPU(hip->set_device(0));
    p.send();
  });
}

// A profiler of ROCm gets the same tables, and sees the program's calls alone.
RANK_TEST(races, M10_a_profiler_of_HIP_listens_as_well, 1) {
  const int* const calls = race_hip() ? race_hip()->profiled : nullptr;
  if (!calls) return skip("needs TEST_RACES=hip, and the hostile ROCm");
  const Stream stream;
  const int before = *calls;
  stream.wait();
  EXPECT(*calls == before + 1, "%d calls, not 1", *calls - before);
}
