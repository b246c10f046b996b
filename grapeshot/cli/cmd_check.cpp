#include "grapeshot/cli/commands.h"
namespace grapeshot::cli {
Action declare_check(CLI::App&) { return [] { return 0; }; }
}
