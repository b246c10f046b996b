// grapeshot/cli/network_files.h: which file each network of a VNN-LIB 2.0 query is.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "grapeshot/io/query.h"

namespace CLI {
class App;
}

namespace grapeshot::cli {

/// --network name=path, as often as needed, into `networks`.
void add_network_option(CLI::App& app, std::vector<std::string>& networks);

/// The two sides of "name=path". Throws kInvalidArgument for text of another form.
[[nodiscard]] std::pair<std::string, std::string> network_option(const std::string& text);

/// The absolute path of every network of the query, of those that equal another one its path.
/// `model`, where it is not empty, is for the network that no option names. Throws kInvalidArgument
/// for names that the query does not declare, or declares equal to another network, and for
/// networks without a file or with two; kNotFound for files that are not there.
[[nodiscard]] std::vector<std::string> network_files(const query::Query& query,
                                                     const std::string& model,
                                                     const std::vector<std::string>& networks);

}  // namespace grapeshot::cli
