/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory from plain C, built with what pkg-config says.
 */
#include <fairlead/device.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  char text[] = "there and back", back[sizeof text] = "";
  void* memory;
  if (fairlead_device_malloc(&memory, sizeof text) || fairlead_device_copy(memory, text, sizeof text) ||
      fairlead_device_copy(back, memory, sizeof text) || fairlead_device_free(memory)) {
    fprintf(stderr, "%s\n", fairlead_device_error_text());
    return 1;
  }
  if (strcmp(text, back) != 0) return 1;
  printf("device memory works on %s\n", fairlead_device_provider());
  return 0;
}
