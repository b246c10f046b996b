#include "grapeshot/cli/network_files.h"

#include <algorithm>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/file.h"

namespace grapeshot::cli {

void add_network_option(CLI::App& app, std::vector<std::string>& networks) {
  app.add_option(
         "--network", networks,
         "The file of a network that a VNN-LIB 2.0 query declares, NAME=FILE.onnx; once for "
         "each, MODEL is for the one not named")
      ->allow_extra_args(false);
}

std::pair<std::string, std::string> network_option(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  GRAPESHOT_CHECK(equals > 0 && equals + 1 < text.size(), kInvalidArgument, "--network: '",
                  printable(text), "' is not of the form NAME=FILE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::string> network_files(const query::Query& query, const std::string& model,
                                       const std::vector<std::string>& networks) {
  const auto absolute = [](const std::string& path) {
    return std::filesystem::absolute(resolve_file(path)).lexically_normal().string();
  };
  std::vector<std::string> out(query.networks.size());
  for (const std::string& each : networks) {
    const auto [name, file] = network_option(each);
    const auto known = std::ranges::find(query.networks, name, &query::Network::name);
    GRAPESHOT_CHECK(known != query.networks.end(), kInvalidArgument, "--network ", name, ": ",
                    query.path, " declares no network of that name");
    GRAPESHOT_CHECK(known->has_file(), kInvalidArgument, "--network ", name, ": ", query.path,
                    " declares it equal to ", query.networks[known->target].name,
                    ", so that it takes no file");
    std::string& place = out[static_cast<size_t>(known - query.networks.begin())];
    GRAPESHOT_CHECK(place.empty(), kInvalidArgument, "--network ", name, ": has a file already, ",
                    place);
    place = absolute(file);
  }
  std::vector<size_t> open;
  for (size_t n = 0; n < out.size(); ++n) {
    if (out[n].empty() && query.networks[n].has_file()) open.push_back(n);
  }
  if (!model.empty()) {
    GRAPESHOT_CHECK(!open.empty(), kInvalidArgument, model,
                    ": is for no network, --network names the file of each");
    // Of several without a file, the first: the others are asked for below.
    out[open[0]] = model;
    open.erase(open.begin());
  }
  for (const size_t n : open) {
    throw Error(ErrorCode::kInvalidArgument,
                str(query.path, ": declares the network ", query.networks[n].name,
                    "; say which file it is with --network ", query.networks[n].name, "=FILE"));
  }
  for (size_t n = 0; n < out.size(); ++n) {
    if (out[n].empty()) out[n] = out[query.networks[n].target];
  }
  return out;
}

}  // namespace grapeshot::cli
