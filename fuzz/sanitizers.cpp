// fuzz/sanitizers.cpp: options of the sanitizers.
//
// LibTorch is not built with them, and yet none of their reports has to be switched off: libstdc++
// marks no unused ends of containers (container-overflow), LibTorch's memory comes from the same
// malloc and operator new (alloc-dealloc-mismatch, leaks), and its types are visible (vptr). What
// goes wrong inside of LibTorch shows only where it reaches our code or malloc.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  // Lines of a finding, where llvm-symbolizer is not installed.
  return "allow_addr2line=1";
}

extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() {
  return "print_stacktrace=1:allow_addr2line=1";
}
