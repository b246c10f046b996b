#include "grapeshot/cli/commands.h"
namespace grapeshot::cli {
Action declare_replay(CLI::App&) { return [] { return 0; }; }
}
