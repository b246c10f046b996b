#include "grapeshot/cli/commands.h"
namespace grapeshot::cli {
Action declare_version(CLI::App&) { return [] { return 0; }; }
}
