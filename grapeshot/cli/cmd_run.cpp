#include "grapeshot/cli/commands.h"
namespace grapeshot::cli {
Action declare_run(CLI::App&) { return [] { return 0; }; }
}
