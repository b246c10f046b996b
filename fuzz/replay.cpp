// fuzz/replay.cpp: runs a fuzz target on files, without libFuzzer.
//
//   replay_<target> FILE_OR_FOLDER...   the empty input, then every file, in the order of names
//
// An input that is a finding ends the process, its name being the last line printed.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;

constexpr long kMaxResidentMib = 2048;  // as dev gives to libFuzzer

std::vector<fs::path> files_below(const fs::path& place) {
  if (!fs::is_directory(place)) return {place};
  std::vector<fs::path> out;
  for (const fs::directory_entry& each : fs::recursive_directory_iterator(place))
    if (each.is_regular_file()) out.push_back(each.path());
  std::ranges::sort(out);
  return out;
}

bool run(const std::string& name, const std::string& input) {
  std::cout << name << std::endl;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const long resident = usage.ru_maxrss / 1024;
  if (resident > kMaxResidentMib) std::cerr << name << ": took " << resident << " MiB\n";
  return resident <= kMaxResidentMib;
}

}  // namespace

int main(int argc, char** argv) {
  bool fine = run("(empty)", "");
  size_t inputs = 1;
  for (int i = 1; i < argc; ++i) {
    if (!fs::exists(argv[i])) continue;  // git has no empty folders
    for (const fs::path& path : files_below(argv[i])) {
      std::ifstream file(path, std::ios::binary);
      const std::string input(std::istreambuf_iterator<char>(file), {});
      fine = run(path.string(), input) && fine;
      ++inputs;
    }
  }
  std::cout << inputs << " inputs\n";
  return fine ? 0 : 1;
}
