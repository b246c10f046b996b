#include "grapeshot/core/property.h"
