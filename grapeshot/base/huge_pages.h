// grapeshot/base/huge_pages.h: memory that is read here and there, in few pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace grapeshot {

/// Asks for large pages where `bytes` at `begin` are many. Only a hint: looking something up in
/// tens of megabytes otherwise misses the processor's table of pages as often as its cache.
inline void prefer_huge_pages(void* begin, std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kPage = std::uintptr_t{1} << 21;
  const std::uintptr_t from = (reinterpret_cast<std::uintptr_t>(begin) + kPage - 1) & ~(kPage - 1);
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(begin) + bytes) & ~(kPage - 1);
  if (end > from) (void)::madvise(reinterpret_cast<void*>(from), end - from, MADV_HUGEPAGE);
#else
  (void)begin;
  (void)bytes;
#endif
}

/// std::allocator with that hint.
template <class T>
struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t n) {
    void* begin = ::operator new(n * sizeof(T), std::align_val_t{alignof(T)});
    prefer_huge_pages(begin, n * sizeof(T));
    return static_cast<T*>(begin);
  }
  void deallocate(T* begin, std::size_t /*n*/) {
    ::operator delete(begin, std::align_val_t{alignof(T)});
  }
  friend bool operator==(const HugePages& /*a*/, const HugePages& /*b*/) { return true; }
};

}  // namespace grapeshot
