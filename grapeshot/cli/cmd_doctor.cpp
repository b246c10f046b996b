#include "grapeshot/cli/commands.h"
namespace grapeshot::cli {
Action declare_doctor(CLI::App&) { return [] { return 0; }; }
}
