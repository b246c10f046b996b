#include "grapeshot/cli/commands.h"
namespace grapeshot::cli {
Action declare_list(CLI::App&) { return [] { return 0; }; }
}
