// SPDX-License-Identifier: Apache-2.0
//
// Operations on GPU streams (S1 to S7, docs/design/streams.md). A stream is held by a word that the test
// writes: a call that waited for the stream would hang, and an operation that did not wait for it would move
// other bytes.

#include "streams/enqueue.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>

using namespace ranks;

namespace {

constexpr size_t sizes[] = {4, 1000, 70000, (1 << 20) + 4};
constexpr StreamKind kinds[] = {StreamKind::non_blocking, StreamKind::application};

// Short messages between nodes, and messages whose bytes pass through host memory, are sent when the stream
// has come to them.
bool sends_come_later() {
  const char* ipc = getenv("FAIRLEAD_IPC");
  return (ipc && std::string(ipc) == "off") || getenv("FAIRLEAD_NODES");
}

}  // namespace

RANK_TEST(enqueue, S1_S2_calls_return_while_the_stream_is_held_and_bytes_follow_its_order, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  for (StreamKind kind : kinds)
    for (size_t bytes : sizes) {
      Stream stream(kind);
      if (peer == MPI_PROC_NULL) continue;
      Memory produced = pattern(bytes, key_of(bytes, rank)), sent(Place::device, bytes),
             received(Place::device, bytes), consumed(Place::device, bytes);
      stream.hold();
      stream.copy(sent, produced);
      MPI_Request requests[2];
      MUST(MPIX_Irecv_enqueue(received, count(received), MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
      MUST(MPIX_Isend_enqueue(sent, count(sent), MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
      MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
      stream.copy(consumed, received);
      EXPECT(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "a request is left");
      stream.release();
      stream.synchronize();
      EXPECT_HOLDS(consumed, key_of(bytes, peer), bytes);
    }
}

RANK_TEST(enqueue, S3_plain_messages_are_partners_in_the_order_of_calls, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr int messages = 12;
  std::vector<Memory> buffers;
  for (int i = 0; i < messages; ++i)
    buffers.push_back(pattern(100 + 7000 * static_cast<size_t>(i), key_of(i)));
  if (rank < peer) {
    stream.hold();
    for (Memory& buffer : buffers)
      MUST(MPIX_Send_enqueue(buffer, count(buffer), MPI_BYTE, peer, tag, stream.comm()));
    stream.release();
    stream.synchronize();
    for (int i = 0; i < messages; ++i) {
      buffers[i].clear();
      MPI_Status status;
      MUST(MPIX_Recv_enqueue(buffers[i], count(buffers[i]), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
                             stream.comm(), &status));
      stream.synchronize();
      EXPECT_STATUS(status, peer, tag + i, buffers[i].bytes());
      EXPECT_HOLDS(buffers[i], key_of(i, 1), buffers[i].bytes());
    }
  } else {
    for (int i = 0; i < messages; ++i) {
      Memory received(i % 3 == 0 ? Place::host : Place::device, buffers[i].bytes());
      MPI_Status status;
      MUST(MPI_Recv(received, count(received), MPI_BYTE, MPI_ANY_SOURCE, tag, stream.comm(), &status));
      EXPECT_STATUS(status, peer, tag, buffers[i].bytes());
      EXPECT_HOLDS(received, key_of(i), received.bytes());
    }
    for (int i = 0; i < messages; ++i)
      MUST(
          MPI_Send(buffers[i].fill(key_of(i, 1)), count(buffers[i]), MPI_BYTE, peer, tag + i, stream.comm()));
  }
}

// The stream comes to the enqueued operations last, but they were called first.
RANK_TEST(enqueue, S3_messages_are_matched_when_they_are_enqueued, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 40000;
  Memory first = pattern(bytes, key_of(1, rank)), second = pattern(bytes, key_of(2, rank));
  // The first message from an allocation may be staged, and so start later.
  Memory warm(Place::device, bytes);
  for (int i = 0; i < 4; ++i) {
    MUST(MPI_Sendrecv(first, count(first), MPI_BYTE, peer, tag, warm, count(warm), MPI_BYTE, peer, tag,
                      stream.comm(), MPI_STATUS_IGNORE));
  }
  for (bool into_host : {false, true}) {
    Memory enqueued(into_host ? Place::host : Place::device, bytes), plain(Place::device, bytes);
    stream.hold();
    MUST(MPIX_Recv_enqueue(enqueued, count(enqueued), MPI_BYTE, peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    MPI_Request request;
    MUST(MPI_Irecv(plain, count(plain), MPI_BYTE, peer, tag, stream.comm(), &request));
    MUST(MPI_Send(first, count(first), MPI_BYTE, peer, tag, stream.comm()));
    MUST(MPI_Send(second, count(second), MPI_BYTE, peer, tag, stream.comm()));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_HOLDS(plain, key_of(2, peer), bytes);
    stream.release();
    stream.synchronize();
    EXPECT_HOLDS(enqueued, key_of(1, peer), bytes);
  }
  if (sends_come_later()) return;
  Memory enqueued(Place::device, bytes), plain(Place::device, bytes);
  stream.hold();
  MPI_Request requests[2];
  MUST(MPI_Irecv(enqueued, count(enqueued), MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
  MUST(MPI_Irecv(plain, count(plain), MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
  MUST(MPIX_Send_enqueue(first, count(first), MPI_BYTE, peer, tag, stream.comm()));
  MUST(MPI_Send(second, count(second), MPI_BYTE, peer, tag, stream.comm()));
  MUST(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
  EXPECT_HOLDS(plain, key_of(2, peer), bytes);
  stream.release();
  MUST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  EXPECT_HOLDS(enqueued, key_of(1, peer), bytes);
  stream.synchronize();
}

// More than a driver's queue has room for: the call waits until the stream goes on, which needs progress.
RANK_TEST(enqueue, S1_a_full_queue_of_the_driver_does_not_stop_progress, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Memory sent = pattern(64, key_of(rank)), received(Place::device, 64);
  for (int i = 0; i < 2000; ++i) {
    MPI_Request requests[2];
    MUST(MPIX_Irecv_enqueue(received, count(received), MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
    MUST(MPIX_Isend_enqueue(sent, count(sent), MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
    MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
  }
  stream.synchronize();
  EXPECT_HOLDS(received, key_of(peer), 64);
}

RANK_TEST(enqueue, S3_an_error_is_returned_by_the_next_call, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) {
    MUST(MPIX_Barrier_enqueue(stream.comm()));
    return stream.synchronize();
  }
  Memory buffer = pattern(5000, key_of(1)), smaller(Place::device, 1000);
  if (rank < peer) {
    MUST(MPIX_Send_enqueue(buffer, count(buffer), MPI_BYTE, peer, tag, stream.comm()));
    stream.synchronize();
    MUST(MPIX_Barrier_enqueue(stream.comm()));
  } else {
    MUST(MPIX_Recv_enqueue(smaller, count(smaller), MPI_BYTE, peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    stream.synchronize();
    EXPECT_ERROR(MPIX_Barrier_enqueue(stream.comm()), MPI_ERR_TRUNCATE);
    MUST(MPIX_Barrier_enqueue(stream.comm()));
  }
  stream.synchronize();
}

// The stream goes on, as if the call had not been made.
RANK_TEST(enqueue, S3_a_receive_that_cannot_start_is_an_error_of_its_call, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner(), nobody = ranks::size + 5;
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  Memory sent = pattern(3000, key_of(rank)), received(Place::device, 3000);
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_ERROR(
      MPIX_Recv_enqueue(received, count(received), MPI_BYTE, nobody, tag, stream.comm(), MPI_STATUS_IGNORE),
      MPI_ERR_RANK);
  EXPECT_ERROR(MPIX_Irecv_enqueue(received, count(received), MPI_BYTE, nobody, tag, stream.comm(), &request),
               MPI_ERR_RANK);
  // Its message would be the first one that the peer receives below.
  Memory other = pattern(3000, key_of(rank + 10));
  EXPECT_ERROR(MPIX_Sendrecv_enqueue(other, count(other), MPI_BYTE, peer, tag, received, count(received),
                                     MPI_BYTE, nobody, tag, stream.comm(), MPI_STATUS_IGNORE),
               MPI_ERR_RANK);
  MUST(MPIX_Sendrecv_enqueue(sent, count(sent), MPI_BYTE, peer, tag, received, count(received), MPI_BYTE,
                             peer, tag, stream.comm(), MPI_STATUS_IGNORE));
  stream.synchronize();
  EXPECT_HOLDS(received, key_of(peer), 3000);
}

// One rank enqueues all that it does on stream `one` first, the other one all on `two`: each stream waits for
// what the peer enqueues later.
RANK_TEST(enqueue, S4_streams_that_wait_for_each_other, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream one, two;
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 20;
  Memory bounced(Place::device, 3000), sent = pattern(3000, key_of(rank)), back(Place::device, 3000);
  auto bounce = [&](Stream& stream) {
    for (int i = 0; i < rounds; ++i) {
      MUST(MPIX_Recv_enqueue(bounced, count(bounced), MPI_BYTE, peer, i, stream.comm(), MPI_STATUS_IGNORE));
      MUST(MPIX_Send_enqueue(bounced, count(bounced), MPI_BYTE, peer, rounds + i, stream.comm()));
    }
  };
  auto serve = [&](Stream& stream) {
    for (int i = 0; i < rounds; ++i) {
      MUST(MPIX_Send_enqueue(sent, count(sent), MPI_BYTE, peer, i, stream.comm()));
      MUST(
          MPIX_Recv_enqueue(back, count(back), MPI_BYTE, peer, rounds + i, stream.comm(), MPI_STATUS_IGNORE));
    }
  };
  bounce(rank < peer ? one : two);
  serve(rank < peer ? two : one);
  one.synchronize();
  two.synchronize();
  EXPECT_HOLDS(bounced, key_of(peer), 3000);
  EXPECT_HOLDS(back, key_of(rank), 3000);
}

RANK_TEST(enqueue, S2_collectives_follow_the_order_of_the_stream, 2) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  for (int elements : {1, 1000, 300000}) {
    const size_t bytes = sizeof(int) * static_cast<size_t>(elements);
    std::vector<int> values(elements), sums(elements);
    for (int i = 0; i < elements; ++i) values[i] = i + rank;
    Memory produced(Place::device, bytes), sent(Place::device, bytes), sum(Place::device, bytes),
        all(Place::device, bytes * static_cast<size_t>(size)), root(Place::device, bytes);
    produced.write(values.data(), bytes);
    stream.hold();
    stream.copy(sent, produced);
    MUST(MPIX_Allreduce_enqueue(sent, sum, elements, MPI_INT, MPI_SUM, stream.comm()));
    MUST(MPIX_Allgather_enqueue(sum, elements, MPI_INT, all, elements, MPI_INT, stream.comm()));
    if (rank == size - 1) stream.copy(root, sum);
    MUST(MPIX_Bcast_enqueue(root, elements, MPI_INT, size - 1, stream.comm()));
    stream.release();
    stream.synchronize();
    for (int i = 0; i < elements; ++i) sums[i] = size * i + size * (size - 1) / 2;
    const char* first = reinterpret_cast<const char*>(sums.data());
    std::vector<char> wanted(first, first + bytes), many;
    for (int i = 0; i < size; ++i) many.insert(many.end(), wanted.begin(), wanted.end());
    std::string why;
    EXPECT(sum.holds(wanted, &why), "sum: %s", why.c_str());
    EXPECT(all.holds(many, &why), "all: %s", why.c_str());
    EXPECT(root.holds(wanted, &why), "root: %s", why.c_str());
  }
}

RANK_TEST(enqueue, S2_persistent_requests_start_on_a_stream, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 50000;
  Memory produced(Place::device, bytes), sent(Place::device, bytes), received(Place::device, bytes);
  MPI_Request requests[2];
  MUST(MPI_Recv_init(received, count(received), MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
  MUST(MPI_Send_init(sent, count(sent), MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
  for (int round = 0; round < 4; ++round) {
    produced.fill(key_of(round, rank));
    stream.hold();
    stream.copy(sent, produced);
    for (MPI_Request& request : requests) MUST(MPIX_Start_enqueue(&request, stream.comm()));
    for (MPI_Request& request : requests) MUST(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    stream.release();
    stream.synchronize();
    EXPECT_HOLDS(received, key_of(round, peer), bytes);
  }
  for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
}

// The progress thread starts some of them. The receiver computes, so senders may write to its buffers.
RANK_TEST(enqueue, M15_messages_of_a_stream_and_others_with_one_tag, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 6 << 20;
  Memory first(Place::device, bytes), second(Place::device, bytes);
  MPI_Request start;
  MUST(MPI_Send_init(first, count(first), MPI_BYTE, peer, tag, stream.comm(), &start));
  for (int round = 0; round < 8; ++round) {
    MPI_Request requests[2];
    if (rank > peer) {
      MUST(MPI_Irecv(first, count(first), MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
      MUST(MPI_Irecv(second, count(second), MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
      usleep(3000);
      MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
      EXPECT_HOLDS(first, key_of(round, 1), bytes);
      EXPECT_HOLDS(second, key_of(round, 2), bytes);
      continue;
    }
    first.fill(key_of(round, 1));
    second.fill(key_of(round, 2));
    usleep(1000);
    if (round < 3) {
      MUST(MPI_Send(first, count(first), MPI_BYTE, peer, tag, stream.comm()));
    } else {
      MUST(MPIX_Start_enqueue(&start, stream.comm()));
      MUST(MPIX_Wait_enqueue(&start, MPI_STATUS_IGNORE));
      if (round % 2) stream.synchronize();
    }
    if (round < 3 || round % 2)
      MUST(MPI_Send(second, count(second), MPI_BYTE, peer, tag, stream.comm()));
    else
      MUST(MPIX_Send_enqueue(second, count(second), MPI_BYTE, peer, tag, stream.comm()));
    stream.synchronize();
  }
  MUST(MPI_Request_free(&start));
}

RANK_TEST(enqueue, S5_a_graph_starts_its_operations_anew_in_each_launch, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t bytes = 30000;
  Memory produced(Place::device, bytes), sent(Place::device, bytes), received(Place::device, bytes),
      consumed(Place::device, bytes);
  device::Graph graph = stream.capture([&] {
    stream.copy(sent, produced);
    for (int i = 0; i < 2; ++i) {
      MPI_Request requests[2];
      MUST(MPIX_Irecv_enqueue(received, count(received), MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
      MUST(MPIX_Isend_enqueue(sent, count(sent), MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
      MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
      stream.copy(i == 0 ? sent : consumed, received);  // the second exchange brings the own bytes back
    }
  });
  for (int launch = 0; launch < 5; ++launch) {
    produced.fill(key_of(launch, rank));
    consumed.clear();
    DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
    stream.synchronize();
    EXPECT_HOLDS(received, key_of(launch, rank), bytes);
    EXPECT_HOLDS(consumed, key_of(launch, rank), bytes);
  }
  DRIVER(Stream::gpu().destroy_graph(graph));
}

RANK_TEST(enqueue, S6_freeing_the_communicator_waits_for_what_is_enqueued, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Memory sent = pattern(9000, key_of(rank)), received(Place::device, 9000);
  {
    Stream stream;
    if (peer != MPI_PROC_NULL) {
      MPI_Request requests[2];
      MUST(MPIX_Irecv_enqueue(received, count(received), MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
      MUST(MPIX_Isend_enqueue(sent, count(sent), MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
    }
  }
  if (peer != MPI_PROC_NULL) EXPECT_HOLDS(received, key_of(peer), 9000);
}

RANK_TEST(enqueue, S7_datatypes_with_gaps, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  constexpr int blocks = 3000;
  std::vector<double> values(2 * blocks);
  for (int i = 0; i < 2 * blocks; ++i) values[i] = rank * 1e6 + i;
  Memory produced(Place::device, values.size() * 8), sent(Place::device, values.size() * 8),
      received(Place::device, blocks * 8);
  produced.write(values.data(), values.size() * 8);
  MPI_Datatype every_other = MPI_DATATYPE_NULL;
  MUST(MPI_Type_vector(blocks, 1, 2, MPI_DOUBLE, &every_other));
  MUST(MPI_Type_commit(&every_other));
  stream.hold();
  stream.copy(sent, produced);
  MUST(MPIX_Sendrecv_enqueue(sent, 1, every_other, peer, tag, received, blocks, MPI_DOUBLE, peer, tag,
                             stream.comm(), MPI_STATUS_IGNORE));
  MUST(MPI_Type_free(&every_other));
  stream.release();
  stream.synchronize();
  std::vector<double> got(blocks);
  received.read(got.data(), got.size() * 8);
  for (int i = 0; i < blocks; ++i)
    if (got[i] != peer * 1e6 + 2 * i) return fail(__FILE__, __LINE__, "element %d is %g", i, got[i]);
}

RANK_TEST(enqueue, S3_messages_to_and_from_nobody, 1) {
  if (const char* reason = why_not()) return skip(reason);
  Stream stream;
  Memory buffer = pattern(5000, key_of(rank));
  auto is_of_nobody = [](const MPI_Status& status) {
    int bytes = -1;
    MUST(MPI_Get_count(&status, MPI_BYTE, &bytes));
    return status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && bytes == 0;
  };
  stream.hold();
  MPI_Status status, statuses[2];
  MUST(MPIX_Send_enqueue(buffer, count(buffer), MPI_BYTE, MPI_PROC_NULL, tag, stream.comm()));
  MUST(MPIX_Recv_enqueue(buffer, count(buffer), MPI_BYTE, MPI_PROC_NULL, tag, stream.comm(), &status));
  EXPECT(is_of_nobody(status), "status of a receive");
  MPI_Request requests[2];
  MUST(MPIX_Irecv_enqueue(buffer, count(buffer), MPI_BYTE, MPI_PROC_NULL, tag, stream.comm(), &requests[0]));
  MUST(MPIX_Isend_enqueue(buffer, count(buffer), MPI_BYTE, MPI_PROC_NULL, tag, stream.comm(), &requests[1]));
  MUST(MPIX_Waitall_enqueue(2, requests, statuses));
  EXPECT(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "a request is left");
  EXPECT(is_of_nobody(statuses[0]), "status of a request");
  MUST(MPIX_Sendrecv_enqueue(buffer, count(buffer), MPI_BYTE, MPI_PROC_NULL, tag, buffer, count(buffer),
                             MPI_BYTE, MPI_PROC_NULL, tag, stream.comm(), &status));
  EXPECT(is_of_nobody(status), "status of MPIX_Sendrecv_enqueue");
  stream.release();
  stream.synchronize();
  EXPECT_HOLDS(buffer, key_of(rank), 5000);
}

RANK_TEST(enqueue, S3_counts_of_more_bits, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  constexpr size_t bytes = 9000;
  Memory sent = pattern(bytes, key_of(rank)), sum(Place::device, sizeof(int));
  sum.write(&rank, sizeof rank);
  MUST(MPIX_Allreduce_enqueue_c(MPI_IN_PLACE, sum, MPI_Count{1}, MPI_INT, MPI_SUM, stream.comm()));
  if (peer != MPI_PROC_NULL) {
    Memory received(Place::device, bytes), again(Place::device, bytes);
    const MPI_Count all = bytes;
    MPI_Request requests[2];
    MUST(MPIX_Irecv_enqueue_c(received, all, MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
    MUST(MPIX_Isend_enqueue_c(sent, all, MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
    MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
    if (rank < peer) MUST(MPIX_Send_enqueue_c(sent, all, MPI_BYTE, peer, tag, stream.comm()));
    MUST(MPIX_Recv_enqueue_c(again, all, MPI_BYTE, peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    if (rank > peer) MUST(MPIX_Send_enqueue_c(sent, all, MPI_BYTE, peer, tag, stream.comm()));
    stream.synchronize();
    EXPECT_HOLDS(received, key_of(peer), bytes);
    EXPECT_HOLDS(again, key_of(peer), bytes);
  }
  stream.synchronize();
  int got = 0;
  sum.read(&got, sizeof got);
  EXPECT(got == size * (size - 1) / 2, "the sum is %d", got);
}

RANK_TEST(enqueue, S3_progress_of_a_stream_can_be_asked_for, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  MPIX_Stream handle = MPIX_STREAM_NULL;
  MUST(MPIX_Comm_get_stream(stream.comm(), 0, &handle));
  MUST(MPIX_Start_progress_thread(handle));
  if (peer != MPI_PROC_NULL) {
    Memory sent = pattern(9000, key_of(rank)), received(Place::device, 9000);
    MUST(MPIX_Sendrecv_enqueue(sent, count(sent), MPI_BYTE, peer, tag, received, count(received), MPI_BYTE,
                               peer, tag, stream.comm(), MPI_STATUS_IGNORE));
    while (Stream::gpu().query_stream(stream.get()) == Error::not_ready) MUST(MPIX_Stream_progress(handle));
    EXPECT_HOLDS(received, key_of(peer), received.bytes());
  }
  MUST(MPIX_Stop_progress_thread(handle));
}

RANK_TEST(enqueue, S3_bad_arguments_are_named, 1) {
  if (const char* reason = why_not()) return skip(reason);
  MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_Info info = MPI_INFO_NULL;
  MUST(MPI_Info_create(&info));
  MPIX_Stream stream = MPIX_STREAM_NULL;
  MUST(MPI_Info_set(info, "type",
                    std::string(Stream::gpu().name()) == "rocm" ? "hipStream_t" : "cudaStream_t"));
  MUST(MPI_Info_set(info, "value", "12"));
  EXPECT_ERROR(MPIX_Stream_create(info, &stream), MPI_ERR_ARG);
  MUST(MPI_Info_free(&info));
  Memory buffer(Place::device, 8);
  // Where the host MPI has this function, it answers here (MPICH 5: MPI_ERR_OTHER).
  const int error = ranks::error_class(MPIX_Send_enqueue(buffer, 8, MPI_BYTE, 0, tag, MPI_COMM_WORLD));
  EXPECT(error == MPI_ERR_COMM || error == MPI_ERR_OTHER, "a communicator without a stream is accepted: %d",
         error);
  MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

// Random steps: the stream produces the bytes of each message, which differ from those of the one before, and
// consumes what arrives. Each rank has the same plan.
RANK_TEST(enqueue, S2_random_steps, 2) {
  if (const char* reason = why_not()) return skip(reason);
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  std::mt19937_64 random(options.seed);
  constexpr size_t longest = size_t{16} << 20, most = longest + 1024;
  Memory produced = pattern(most, key_of(rank)), sent(Place::device, longest),
         received(Place::device, longest), consumed(Place::device, longest);
  std::vector<char> wanted(most), got(longest);
  write_pattern(key_of(peer), wanted.data(), most);
  const long rounds = options.rounds ? options.rounds : 24;
  for (long round = 0; round < rounds; ++round) {
    const size_t bytes = size_t{8} << (random() % 22), offset = random() % 1024;
    const int length = static_cast<int>(bytes);
    const bool waits = random() % 4 == 0, blocking = random() % 2, held = random() % 3 == 0;
    auto copy = [&](const Memory& to, const Memory& from, size_t from_at) {
      DRIVER(Stream::gpu().copy(to.data(), static_cast<const char*>(from.data()) + from_at, bytes,
                                stream.get()));
    };
    if (held) stream.hold();
    copy(sent, produced, offset);
    if (blocking) {
      MUST(MPIX_Sendrecv_enqueue(sent, length, MPI_BYTE, peer, tag, received, length, MPI_BYTE, peer, tag,
                                 stream.comm(), MPI_STATUS_IGNORE));
    } else {
      MPI_Request requests[2];
      MUST(MPIX_Irecv_enqueue(received, length, MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
      MUST(MPIX_Isend_enqueue(sent, length, MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
      MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
    }
    copy(consumed, received, 0);
    if (held) stream.release();
    if (!waits) continue;
    stream.synchronize();
    consumed.read(got.data(), bytes);
    if (std::memcmp(got.data(), wanted.data() + offset, bytes) != 0)
      return fail(__FILE__, __LINE__, "round %ld of seed %llu: other bytes", round,
                  (unsigned long long)options.seed);
  }
  stream.synchronize();
}
