// SPDX-License-Identifier: Apache-2.0
//
// A libnvidia-ml.so.1 for fabric_domain_test. The bus number of a GPU is its case; the information is written
// at the places that NVIDIA documents, in the versions that the case knows.

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {

constexpr int not_found = 6, version_mismatch = 25;
constexpr unsigned version_2 = 36 | 2u << 24, version_3 = 40 | 3u << 24;
constexpr size_t cluster_at = 4, status_at = 20, clique_at = 24, state_at = 28;

struct Gpu {
  unsigned known_version;
  unsigned char cluster, state;
  int status;
};
// In a domain, for new and old drivers; not registered yet; failed; of a machine without a domain.
Gpu gpus[] = {{version_3, 7, 3, 0}, {version_2, 7, 3, 0}, {version_3, 7, 2, 0},
              {version_3, 7, 3, 9}, {version_3, 0, 3, 0}, {0, 7, 3, 0}};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, Gpu** gpu) {
  unsigned bus = 0;
  if (std::sscanf(pci, "0000:%x:00.0", &bus) != 1 || bus >= sizeof gpus / sizeof *gpus) return not_found;
  *gpu = &gpus[bus];
  return 0;
}

int nvmlDeviceGetGpuFabricInfoV(const Gpu* gpu, unsigned char* info) {
  constexpr unsigned clique = 0x01020304;
  unsigned version = 0;
  std::memcpy(&version, info, sizeof version);
  if (version != gpu->known_version) return version_mismatch;
  std::memset(info + cluster_at, gpu->cluster, 16);
  std::memcpy(info + status_at, &gpu->status, sizeof gpu->status);
  std::memcpy(info + clique_at, &clique, sizeof clique);
  info[state_at] = gpu->state;
  return 0;
}

}  // extern "C"
