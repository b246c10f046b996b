// grapeshot/report/parts.h: page.css, page.js and regressions.py, as CMakeLists.txt embeds them.
#pragma once

#include <string_view>

namespace grapeshot::report::parts {

extern const std::string_view page_css, page_js, regressions_py;

}  // namespace grapeshot::report::parts
