#include "grapeshot/base/decimal.h"
