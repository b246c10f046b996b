// grapeshot/base/clones.h: functions compiled for several processors.
#pragma once

// In front of a function: one version for every level of x86-64, chosen by the loader. Sanitizers
// do not start early enough for that.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GRAPESHOT_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GRAPESHOT_CLONES
#endif
