// fuzz/sanitizers.cpp: options of the sanitizers.
//
// LibTorch is not built with them, and yet none of their reports has to be switched off: libstdc++
// marks no unused ends of containers (container-overflow), LibTorch's memory comes from the same
// malloc and operator new (alloc-dealloc-mismatch, leaks), and its types are visible (vptr). What
// goes wrong inside of LibTorch shows only where it reaches our code or malloc.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  // Lines of a finding; binutils come with g++, llvm-symbolizer would be another package.
  return "symbolize=1:external_symbolizer_path=/usr/bin/addr2line";
}

extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() {
  return "print_stacktrace=1";
}
