// CHECK(condition): a check that tells its test, its place and its own text when it does not hold.
#pragma once

#include "check.h"

/** The test that runs, as a sentence. */
inline const char* current = "";

#define CHECK(condition) \
  check::that((condition), std::string(current) + ": " + __FILE__ + ":" + std::to_string(__LINE__) + ": " #condition)
