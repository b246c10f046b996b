// fuzz/sanitizers.cpp: what the sanitizers must not report, because LibTorch is not built with
// them.
//
// - detect_container_overflow: a vector that LibTorch's own code fills and ours reads, or the other
//   way round, has its unused end marked by one side only.
// - alloc_dealloc_mismatch: operator new inlined into one side and a free() hidden in the other is
//   how c10 gives its buffers away.
// - detect_odr_violation: inline variables of ATen's headers are in our program and in
// libtorch_cpu. UBSan's vptr and function checks are off at compile time (CMakePresets.json): they
// compare type information that LibTorch hides.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  // addr2line gives the lines of a finding where llvm-symbolizer is not installed.
  return "detect_container_overflow=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:"
         "allow_addr2line=1";
}

extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() {
  return "print_stacktrace=1:allow_addr2line=1";
}
